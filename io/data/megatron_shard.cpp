#include "io/data/megatron_shard.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/error.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::string_view kMagic = "MMIDIDX\0\0"sv;
constexpr std::uint64_t kVersion = 1;
constexpr std::array kTypes = {"none"sv, "uint8"sv, "int8"sv, "int16"sv, "int32"sv, "int64"sv, "float64"sv, "float32"sv, "uint16"sv};

/// Reads numbers one after the other, at any address.
class Index {
 public:
  explicit Index(const fs::path& path) : path_(path), file_(path) {
    require(file_.text().starts_with(kMagic), "{} does not start with MMIDIDX: it is no index of Megatron tokens", path.string());
    at_ = kMagic.size();
  }

  template <class T>
  T next() {
    require(left() >= sizeof(T), "{} ends after {} bytes, within its header", path_.string(), file_.size());
    T value;
    std::memcpy(&value, file_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  [[nodiscard]] std::uint64_t left() const { return static_cast<std::uint64_t>(file_.size()) - at_; }

 private:
  fs::path path_;
  MappedFile file_;
  std::uint64_t at_ = 0;
};

int width_of(std::uint8_t type, const std::string& name) {
  const std::string_view spelling = type < kTypes.size() ? kTypes[type] : "unknown"sv;
  require(spelling == "uint16" || spelling == "int32", "{}: tokens of type {} ({}); uint16 (8) and int32 (4) can be read", name, type,
          spelling);
  return spelling == "uint16" ? 2 : 4;
}

/// Where every sequence begins, in tokens, and where the last one ends. They must lie one after the other.
std::vector<std::int64_t> read_sequences(Index& index, std::uint64_t count, int width, const std::string& name) {
  std::vector<std::int64_t> begins = {0};
  begins.reserve(count + 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto length = index.next<std::int32_t>();
    require(length >= 0, "{}: sequence {} has {} tokens", name, i, length);
    begins.push_back(begins.back() + length);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto at = index.next<std::int64_t>();
    require(at == begins[i] * width,
            "{}: sequence {} begins at byte {}, where byte {} is the end of the one before; gaps are not supported", name, i, at,
            begins[i] * width);
  }
  return begins;
}

/// The tokens that documents begin at; those without tokens are left out.
std::vector<std::int64_t> read_documents(Index& index, std::uint64_t count, const std::vector<std::int64_t>& begins,
                                         const std::string& name) {
  const auto sequences = static_cast<std::int64_t>(begins.size()) - 1;
  std::vector<std::int64_t> documents;
  std::int64_t before = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto sequence = index.next<std::int64_t>();
    require(before <= sequence && sequence <= sequences, "{}: document {} begins at sequence {}, after {} and of {}", name, i, sequence,
            before, sequences);
    require(i > 0 || sequence == 0, "{}: the first document begins at sequence {}, expected 0", name, sequence);
    require(i + 1 < count || sequence == sequences, "{}: the documents end at sequence {} of {}", name, sequence, sequences);
    before = sequence;
    const std::int64_t token = begins[static_cast<std::size_t>(sequence)];
    if (!documents.empty() && documents.back() == token) continue;
    if (token < begins.back()) documents.push_back(token);
  }
  return documents;
}

fs::path with_extension(fs::path file, const char* extension) { return file.replace_extension(extension); }

}  // namespace

fs::path megatron_index_of(const fs::path& file) { return with_extension(file, ".idx"); }

bool is_megatron(const fs::path& file) {
  if (file.extension() != ".bin" && file.extension() != ".idx") return false;
  const fs::path index = megatron_index_of(file);
  return fs::is_regular_file(index) && MappedFile(index).text().starts_with(kMagic);
}

std::shared_ptr<const TokenShard> open_megatron_shard(const fs::path& file) {
  const fs::path path = with_extension(file, ".bin");
  const std::string name = megatron_index_of(file).string();
  Index index(name);
  const auto version = index.next<std::uint64_t>();
  require(version == kVersion, "{}: version {}; this program knows version {}", name, version, kVersion);
  const int width = width_of(index.next<std::uint8_t>(), name);
  const auto sequences = index.next<std::uint64_t>();
  const auto documents = index.next<std::uint64_t>();
  // Divided, so that no count in the file can make a product overflow.
  require(sequences <= index.left() / 12 && documents <= (index.left() - 12 * sequences) / 8,
          "{}: the header says {} sequences and {} documents, for which the {} bytes after it are too few; was it cut off while copying?",
          name, sequences, documents, index.left());
  const std::vector<std::int64_t> begins = read_sequences(index, sequences, width, name);
  // Without a list of documents they end where an end-of-text token does.
  std::optional<std::vector<std::int64_t>> table;
  if (documents > 1) table = read_documents(index, documents, begins, name);
  require(begins.back() > 0, "{} has no tokens", name);
  MappedFile tokens(path);
  const std::int64_t expected = begins.back() * width;
  require(tokens.size() == expected, "{} has {} bytes, but {} lists {} tokens of {} bytes", path.string(), tokens.size(), name,
          begins.back(), width);
  const TokenShard::Layout layout{
      .offset = 0, .count = begins.back(), .bytes_per_token = width, .fingerprint = sampled_fingerprint(tokens.bytes())};
  return std::make_shared<TokenShard>(path, std::move(tokens), layout, std::move(table));
}

}  // namespace oxrse::io

#include "io/data/token_shard.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/core/error.h"
#include "io/checksum.h"
#include "io/data/hdf5_shard.h"
#include "io/data/megatron_shard.h"

namespace oxrse::io {
namespace {

constexpr std::size_t kHeaderWords = 256;
constexpr std::int64_t kHeaderBytes = kHeaderWords * 4;

struct LlmcFormat {
  std::uint32_t magic, version;
  int bytes_per_token;
};
constexpr std::array kLlmcFormats = {LlmcFormat{20240520, 1, 2}, LlmcFormat{20240801, 7, 4}};

std::uint32_t word(const MappedFile& file, std::size_t i) {
  std::uint32_t value = 0;
  if (file.size() >= static_cast<std::int64_t>(4 * (i + 1))) std::memcpy(&value, file.data() + 4 * i, 4);
  return value;
}

const LlmcFormat* llmc_format(const MappedFile& file) {
  const auto* found = std::find_if(kLlmcFormats.begin(), kLlmcFormats.end(), [&](const auto& f) { return f.magic == word(file, 0); });
  return found == kLlmcFormats.end() ? nullptr : found;
}

std::shared_ptr<const TokenShard> open_llmc_shard(const std::filesystem::path& path, MappedFile file, const LlmcFormat& format) {
  require(file.size() >= kHeaderBytes, "{}: {} bytes are less than the header of {} bytes", path.string(), file.size(), kHeaderBytes);
  require(word(file, 1) == format.version, "{}: version {} of a token file with the magic number {}; only version {} is known",
          path.string(), word(file, 1), format.magic, format.version);
  const std::int64_t count = word(file, 2);
  require(count > 0, "{}: the header says 0 tokens", path.string());
  const std::int64_t expected = kHeaderBytes + count * format.bytes_per_token;
  require(file.size() == expected,
          "{}: the header says {} tokens, which makes {} bytes, but the file has {}; was it cut off while copying?", path.string(), count,
          expected, file.size());
  const TokenShard::Layout layout{.offset = kHeaderBytes,
                                  .count = count,
                                  .bytes_per_token = format.bytes_per_token,
                                  .fingerprint = sampled_fingerprint(file.bytes().subspan(kHeaderBytes))};
  return std::make_shared<TokenShard>(path, std::move(file), layout, std::nullopt);
}

template <class Stored>
void convert(const std::byte* from, std::span<std::int32_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Stored value = 0;
    std::memcpy(&value, from + i * sizeof(Stored), sizeof(Stored));
    to[i] = static_cast<std::int32_t>(value);
  }
}

}  // namespace

TokenShard::TokenShard(std::filesystem::path path, MappedFile file, const Layout& layout,
                       std::optional<std::vector<std::int64_t>> documents)
    : path_(std::move(path)), file_(std::move(file)), layout_(layout), documents_(std::move(documents)) {}

void TokenShard::read(std::int64_t begin, std::span<std::int32_t> tokens) const {
  const auto count = static_cast<std::int64_t>(tokens.size());
  require(0 <= begin && begin + count <= size(), "tokens [{}, {}) of {}, which has {}", begin, begin + count, path_.string(), size());
  const std::byte* from = file_.data() + offset_of(begin);
  if (layout_.bytes_per_token == 2) {
    convert<std::uint16_t>(from, tokens);
  } else {
    convert<std::uint32_t>(from, tokens);
  }
}

bool is_token_shard(const std::filesystem::path& path) {
  const MappedFile file(path);
  return is_hdf5(file) || llmc_format(file) != nullptr || is_megatron(path);
}

std::shared_ptr<const TokenShard> open_token_shard(const std::filesystem::path& path) {
  MappedFile file(path);
  if (!is_megatron(path)) require(file.size() > 0, "{} is empty, which no token shard is", path.string());
  if (is_hdf5(file)) return open_hdf5_shard(path, std::move(file));
  if (is_megatron(path)) return open_megatron_shard(path);
  const LlmcFormat* format = llmc_format(file);
  require(format != nullptr,
          "{} is not a token shard: it starts with {}, expected {} or {} (llm.c), an HDF5 file, or an .idx beside it (Megatron)",
          path.string(), word(file, 0), kLlmcFormats[0].magic, kLlmcFormats[1].magic);
  return open_llmc_shard(path, std::move(file), *format);
}

std::uint64_t sampled_fingerprint(std::span<const std::byte> tokens) {
  constexpr std::size_t kSamples = 64;
  constexpr std::size_t kSampleBytes = 4096;
  if (tokens.size() <= kSamples * kSampleBytes) return xxh3(tokens);
  std::vector<std::uint64_t> parts = {tokens.size()};
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t begin = (tokens.size() - kSampleBytes) / (kSamples - 1) * i;
    parts.push_back(xxh3(tokens.subspan(begin, kSampleBytes)));
  }
  parts.push_back(xxh3(tokens.last(kSampleBytes)));
  return xxh3(std::as_bytes(std::span(parts)));
}

}  // namespace oxrse::io

#include "io/data/hdf5_shard.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "io/checkpoint/hdf5.h"
#include "io/checkpoint/hdf5_image.h"
#include "io/checksum.h"
#include "io/file_stream.h"

namespace oxrse::io {
namespace {

using hdf5::Handle;
constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr std::string_view kFormat = "oxrse tokens";
constexpr std::int64_t kVersion = 1;

/// A contiguous dataset of `count` integers with its place in the file.
std::int64_t reserve(const Handle& file, const char* name, hid_t type, std::size_t count) {
  const hsize_t extent = count;
  const Handle space(H5Screate_simple(1, &extent, nullptr), H5Sclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_layout(creation.id(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(creation.id(), false);  // equal tokens make equal files
  const Handle dataset(H5Dcreate2(file.id(), name, type, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), H5Dclose);
  require(dataset.id() >= 0, "HDF5 cannot create a dataset /{} of {} integers", name, count);
  return hdf5::offset_of(dataset);
}

template <class Integer>
std::vector<std::byte> bytes_of(std::span<const std::int32_t> tokens) {
  std::vector<Integer> stored(tokens.begin(), tokens.end());
  const auto bytes = std::as_bytes(std::span(stored));
  return {bytes.begin(), bytes.end()};
}

Handle open_dataset(const Handle& file, const std::string& path, const char* name) {
  Handle dataset(H5Dopen2(file.id(), name, H5P_DEFAULT), H5Dclose);
  require(dataset.id() >= 0, "{} has no dataset /{}: it is not a token shard of ours", path, name);
  return dataset;
}

std::int64_t count_of(const Handle& dataset) {
  const Handle space(H5Dget_space(dataset.id()), H5Sclose);
  return H5Sget_simple_extent_npoints(space.id());
}

std::int64_t read_attribute(const Handle& file, const std::string& path, const char* name) {
  const Handle attribute(H5Aopen(file.id(), name, H5P_DEFAULT), H5Aclose);
  std::int64_t value = 0;
  require(attribute.id() >= 0 && H5Aread(attribute.id(), H5T_NATIVE_INT64, &value) >= 0,
          "{} has no attribute {}: it is not a token shard of ours", path, name);
  return value;
}

/// Two or four bytes when the dataset holds little-endian unsigned integers of that size in one piece.
int width_of(const Handle& dataset, const std::string& path) {
  const Handle type(H5Dget_type(dataset.id()), H5Tclose);
  const Handle creation(H5Dget_create_plist(dataset.id()), H5Pclose);
  const bool narrow = H5Tequal(type.id(), H5T_STD_U16LE) > 0;
  require(narrow || H5Tequal(type.id(), H5T_STD_U32LE) > 0, "{}: /tokens does not hold uint16 or uint32, little-endian", path);
  require(H5Pget_layout(creation.id()) == H5D_CONTIGUOUS, "{}: /tokens is not contiguous; write it without chunks and compression", path);
  return narrow ? 2 : 4;
}

std::vector<std::int64_t> read_documents(const Handle& file, const std::string& path, std::int64_t tokens) {
  const Handle dataset = open_dataset(file, path, "documents");
  std::vector<std::int64_t> documents(static_cast<std::size_t>(count_of(dataset)));
  require(documents.empty() || H5Dread(dataset.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, documents.data()) >= 0,
          "{}: /documents cannot be read", path);
  const bool ascends = std::is_sorted(documents.begin(), documents.end());
  require(documents.empty() || (ascends && documents.front() >= 0 && documents.back() < tokens),
          "{}: /documents does not ascend within the {} tokens", path, tokens);
  return documents;
}

}  // namespace

void write_hdf5_shard(const std::filesystem::path& path, const ShardContents& contents) {
  const bool narrow = contents.vocab <= 1 << 16U;
  const std::vector<std::byte> tokens = narrow ? bytes_of<std::uint16_t>(contents.tokens) : bytes_of<std::uint32_t>(contents.tokens);
  hdf5::Image image;
  const std::int64_t tokens_at = reserve(image.file(), "tokens", narrow ? H5T_STD_U16LE : H5T_STD_U32LE, contents.tokens.size());
  const std::int64_t documents_at = reserve(image.file(), "documents", H5T_STD_I64LE, contents.documents.size());
  hdf5::set_attribute(image.file(), "format", kFormat);
  hdf5::set_attribute(image.file(), "version", kVersion);
  hdf5::set_attribute(image.file(), "vocab", contents.vocab);
  hdf5::set_attribute(image.file(), "tokenizer", static_cast<std::int64_t>(contents.tokenizer));
  hdf5::set_attribute(image.file(), "xxh3", static_cast<std::int64_t>(xxh3(tokens)));
  image.finish();
  OutputFile out(path);
  image.write_to(out);
  out.write_at(tokens, tokens_at);
  if (!contents.documents.empty()) out.write_at(std::as_bytes(contents.documents), documents_at);
  out.close();
}

bool is_hdf5(const MappedFile& file) { return file.text().starts_with(kSignature); }

std::shared_ptr<const TokenShard> open_hdf5_shard(const std::filesystem::path& path, MappedFile mapped) {
  const std::string name = path.string();
  const Handle file = hdf5::open_file(path);
  const std::int64_t version = read_attribute(file, name, "version");
  require(version == kVersion, "{}: version {} of our token shards; this program knows version {}", name, version, kVersion);
  const Handle tokens = open_dataset(file, name, "tokens");
  const TokenShard::Layout layout{.offset = hdf5::offset_of(tokens),
                                  .count = count_of(tokens),
                                  .bytes_per_token = width_of(tokens, name),
                                  .fingerprint = static_cast<std::uint64_t>(read_attribute(file, name, "xxh3")),
                                  .tokenizer = static_cast<std::uint64_t>(read_attribute(file, name, "tokenizer"))};
  require(layout.count > 0, "{}: /tokens is empty", name);
  const std::int64_t end = layout.offset + layout.count * layout.bytes_per_token;
  require(layout.offset > 0 && end <= mapped.size(),
          "{}: {} tokens end at byte {}, but the file has {} bytes; was it cut off while copying?", name, layout.count, end, mapped.size());
  const auto bytes = mapped.bytes().subspan(static_cast<std::size_t>(layout.offset), static_cast<std::size_t>(end - layout.offset));
  require(xxh3(bytes) == layout.fingerprint, "{}: the checksum of /tokens is {}, stored is {}: the file was damaged or changed", name,
          hex(xxh3(bytes)), hex(layout.fingerprint));
  auto documents = read_documents(file, name, layout.count);
  return std::make_shared<TokenShard>(path, std::move(mapped), layout, std::move(documents));
}

}  // namespace oxrse::io

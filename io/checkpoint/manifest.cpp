#include "io/checkpoint/manifest.h"

#include <fmt/ranges.h>

#include "engine/core/tensor.h"
#include "io/checksum.h"
#include "io/files.h"

namespace oxrse::io {
namespace {

constexpr std::string_view kFormat = "oxrse checkpoint";
constexpr std::string_view kBeforeChecksum = "{\n\"checksum\": \"";
constexpr std::size_t kChecksumDigits = 16;

std::string checksum_of(std::string text) {
  text.replace(kBeforeChecksum.size(), kChecksumDigits, kChecksumDigits, '0');
  return hex(xxh3(text));
}

Json to_json(const Piece& piece) {
  Json json = {{"file", piece.file},
               {"offset", piece.region.offset},
               {"shape", piece.region.shape},
               {"position", piece.position},
               {"xxh3", piece.xxh3}};
  if (piece.region.flat) json["flat"] = true;
  if (piece.compressed) json["compressed"] = true;
  return json;
}

Json to_json(const StoredTensor& tensor) {
  Json pieces = Json::array();
  for (const Piece& piece : tensor.pieces) pieces.push_back(to_json(piece));
  return {{"name", tensor.name}, {"part", tensor.part}, {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", pieces}};
}

Json to_json(const StoredFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}, {"structure", file.structure}};
}

template <class T>
std::string lines_of(const std::vector<T>& list) {
  std::string text = "[";
  for (const T& entry : list) text += (text.size() > 1 ? ",\n  " : "\n  ") + to_json(entry).dump();
  return text + "\n]";
}

StoredFile file_from(const Json& json) {
  StoredFile file{json.at("name"), json.at("bytes"), json.at("xxh3"), json.value("structure", "")};
  require(!file.name.empty() && file.name.find('/') == std::string::npos && file.name != "..", "a file called '{}'", file.name);
  require(file.bytes >= 0, "{}: {} bytes", file.name, file.bytes);
  return file;
}

Piece piece_from(const Json& json) {
  return {json.at("file"),
          {json.at("offset"), json.at("shape"), json.value("flat", false)},
          json.at("position"),
          json.at("xxh3"),
          json.value("compressed", false)};
}

/// That a piece lies inside its tensor and its file.
void check_piece(const StoredTensor& tensor, const Piece& piece, const std::vector<StoredFile>& files) {
  require(piece.file >= 0 && piece.file < static_cast<std::int64_t>(files.size()), "file {} of {}", piece.file, files.size());
  check_region(piece.region, tensor.shape);
  if (piece.compressed) return;
  const std::int64_t bytes = piece.region.count() * size_of(tensor.dtype);
  const StoredFile& file = files[static_cast<std::size_t>(piece.file)];
  require(piece.position >= 0 && bytes <= file.bytes && piece.position <= file.bytes - bytes, "{} bytes at {} of {} ({} bytes)", bytes,
          piece.position, file.name, file.bytes);
}

void check_tensor(const StoredTensor& tensor, const std::vector<StoredFile>& files) {
  std::vector<Region> regions;
  for (const Piece& piece : tensor.pieces) {
    check_piece(tensor, piece, files);
    regions.push_back(piece.region);
  }
  const std::string fault = partition_fault(regions, tensor.shape);
  require(fault.empty(), "{}", fault);
}

StoredTensor tensor_from(const Json& json) {
  StoredTensor tensor{json.at("name"), json.at("part"), dtype_named(json.at("dtype").get<std::string>()), json.at("shape"), {}};
  require(tensor.shape.size() <= kMaxRank, "{}: {} dimensions", tensor.label(), tensor.shape.size());
  checked_count(tensor.shape, tensor.dtype);
  for (const Json& piece : json.at("pieces")) tensor.pieces.push_back(piece_from(piece));
  return tensor;
}

Manifest from_json(const Json& json) {
  require(json.at("format") == kFormat, "'format' is not '{}'", kFormat);
  const Json& version = json.at("version");
  require(version.is_number_integer() && version >= 1 && version <= kCheckpointVersion, "format version {}; this program reads up to {}",
          version.dump(), kCheckpointVersion);
  Manifest manifest;
  manifest.step = json.at("step");
  manifest.sequence = json.at("sequence");
  manifest.world = json.at("world");
  manifest.weights_only = json.value("weights_only", false);
  manifest.tokenizer_xxh3 = json.at("tokenizer_xxh3");
  manifest.config = json.at("config");
  for (const Json& file : json.at("files")) manifest.files.push_back(file_from(file));
  require(manifest.world >= 1 && manifest.world <= static_cast<std::int64_t>(manifest.files.size()), "{} files of {} writers",
          manifest.files.size(), manifest.world);
  for (const Json& tensor : json.at("tensors")) manifest.tensors.push_back(tensor_from(tensor));
  check_tensors(manifest);
  return manifest;
}

}  // namespace

std::int64_t StoredTensor::bytes() const { return checked_count(shape, dtype) * size_of(dtype); }

std::string describe_shape(std::span<const std::int64_t> shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

DType dtype_named(std::string_view name) {
  for (const DType type : {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I32}) {
    if (name == name_of(type)) return type;
  }
  fail("unknown element type '{}'", name);
}

std::int64_t checked_count(std::span<const std::int64_t> shape, DType dtype) {
  std::int64_t count = 1, bytes = 0;
  for (const std::int64_t size : shape) {
    require(size >= 0 && !__builtin_mul_overflow(count, size, &count), "impossible shape {}", describe_shape(shape));
  }
  require(!__builtin_mul_overflow(count, size_of(dtype), &bytes), "impossible shape {}", describe_shape(shape));
  return count;
}

std::string to_text(const Manifest& manifest) {
  std::string text(kBeforeChecksum);
  text += fmt::format("{:0>{}}\",\n\"format\": \"{}\",\n\"version\": {},\n", "", kChecksumDigits, kFormat, kCheckpointVersion);
  text += fmt::format("\"step\": {},\n\"sequence\": {},\n\"world\": {},\n\"weights_only\": {},\n", manifest.step, manifest.sequence,
                      manifest.world, manifest.weights_only);
  text += fmt::format("\"tokenizer_xxh3\": \"{}\",\n\"files\": {},\n", manifest.tokenizer_xxh3, lines_of(manifest.files));
  text += fmt::format("\"tensors\": {},\n\"config\": {}\n}}\n", lines_of(manifest.tensors), manifest.config.dump(2));
  text.replace(kBeforeChecksum.size(), kChecksumDigits, checksum_of(text));
  return text;
}

void check_tensors(const Manifest& manifest) {
  for (const StoredTensor& tensor : manifest.tensors) {
    try {
      check_tensor(tensor, manifest.files);
    } catch (const Error& error) {
      throw error.in(tensor.label());
    }
  }
}

Json to_json(const ShardSummary& summary) {
  Json files = Json::array(), tensors = Json::array();
  for (const StoredFile& file : summary.files) files.push_back(to_json(file));
  for (const StoredTensor& tensor : summary.tensors) tensors.push_back(to_json(tensor));
  return {{"files", files}, {"tensors", tensors}};
}

ShardSummary shard_summary(const Json& json) {
  ShardSummary summary;
  for (const Json& file : json.at("files")) summary.files.push_back(file_from(file));
  for (const Json& tensor : json.at("tensors")) summary.tensors.push_back(tensor_from(tensor));
  return summary;
}

Manifest read_manifest(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kManifestName;
  const std::string text = read_file(path);
  require(text.starts_with(kBeforeChecksum) && text.size() > kBeforeChecksum.size() + kChecksumDigits,
          "{} is no manifest of a checkpoint: it does not begin with a checksum", path.string());
  require(text.substr(kBeforeChecksum.size(), kChecksumDigits) == checksum_of(text), "{} is damaged: its checksum differs", path.string());
  try {
    return from_json(Json::parse(text));
  } catch (const Error& error) {
    throw error.in(path.string());
  } catch (const Json::exception& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

}  // namespace oxrse::io

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/json.h"
#include "engine/core/tensor.h"
#include "io/checkpoint/region.h"

namespace oxrse::io {

/// A part of a tensor as it lies in a file: contiguous, row-major.
struct Piece {
  std::int64_t file = 0;  // index into Manifest::files
  Region region;
  std::int64_t position = 0;  // first byte in the file
  std::string xxh3;           // of the bytes, uncompressed
  bool compressed = false;    // by HDF5's filters, in chunks: it has no position

  bool operator==(const Piece&) const = default;
};

struct StoredTensor {
  std::string name;
  std::string part;
  DType dtype = DType::None;
  std::vector<std::int64_t> shape;
  std::vector<Piece> pieces;  // a partition of the elements

  /// Bytes of the whole tensor.
  [[nodiscard]] std::int64_t bytes() const;
  /// "blocks.0.norm1.weight (master)"
  [[nodiscard]] std::string label() const { return name + " (" + part + ")"; }
};

struct StoredFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string xxh3;       // of the file
  std::string structure;  // XXH3 of what is outside of the pieces; empty in files of version 1

  bool operator==(const StoredFile&) const = default;
};

/// manifest.json: what a checkpoint consists of. It is written last, so a directory without it is no checkpoint.
struct Manifest {
  std::int64_t step = 0;
  std::int64_t sequence = 0;  // how many checkpoints were saved to the directory before; newest is what was saved last
  std::int64_t world = 1;     // ranks that wrote; their files are the first
  bool weights_only = false;  // for evaluation: a run cannot go on from it
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;
  std::string tokenizer_xxh3;  // empty without a tokenizer
  Json config;
};

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::int64_t kCheckpointVersion = 2;

/// One writer's part of a checkpoint: its file and the files of earlier checkpoints it links to, and what these hold of each tensor (the
/// pieces' `file` is an index into `files`).
struct ShardSummary {
  std::vector<StoredFile> files;  // its own comes first
  std::vector<StoredTensor> tensors;
};

/// For sending a summary to the coordinator.
Json to_json(const ShardSummary& summary);
ShardSummary shard_summary(const Json& json);

/// An Error unless every tensor's pieces lie in their files and are a partition of its elements.
void check_tensors(const Manifest& manifest);

/// JSON with one line a file and tensor. The first member is the XXH3 of the whole text with that checksum's digits as zeros.
std::string to_text(const Manifest& manifest);

/// The manifest of a checkpoint directory. An Error says what is damaged, or that the version is not known here.
Manifest read_manifest(const std::filesystem::path& directory);

/// "(48, 3)"
std::string describe_shape(std::span<const std::int64_t> shape);
/// The type called `name` in files, as name_of() gives it; an Error for any other.
DType dtype_named(std::string_view name);
/// Number of elements; an Error when a size is negative or the bytes of that many elements do not fit 63 bits.
std::int64_t checked_count(std::span<const std::int64_t> shape, DType dtype);

}  // namespace oxrse::io

#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint/entry.h"
#include "io/checkpoint/manifest.h"
#include "io/file_stream.h"

namespace oxrse::io {

/// "shard_r00003.h5"
std::string shard_name(std::int64_t writer_rank);

/// An earlier checkpoint.
struct BaseCheckpoint {
  std::filesystem::path directory;
  Manifest manifest;
};

/// How a shard is written.
struct ShardOptions {
  bool compress = false;                 // byte-shuffle and deflate, by HDF5's own filters
  const BaseCheckpoint* base = nullptr;  // when given, pieces that it has with the same bytes are not written
};

/// Writes one writer's HDF5 file of a checkpoint to `directory` and waits until it is on the disk. The first writer's file holds the
/// state, too. A file of that name is an Error.
///
/// With a base, its files that hold unchanged pieces get a further hard link in `directory`, as step_0000000100_shard_r00000.h5, and the
/// shard has an external link in the place of each such dataset. So a checkpoint stays whole when the one before is removed. Bytes are
/// verified before they are linked to; where links are not possible, everything is written.
ShardSummary write_shard(const std::filesystem::path& directory, const Writer& writer, const CheckpointState& state,
                         std::span<const CheckpointEntry> entries, const ShardOptions& options = {});

/// "/optim/norm.weight/master"
std::string dataset_path(std::string_view name, std::string_view part);

/// What /state and /meta of the first writer's shard hold; the tensors stay out.
CheckpointState read_shard_state(const std::filesystem::path& path);

/// Whose file a shard is, as its last line says: "shard 1 of 3 of step 200"; empty where there is no such line. The file may be damaged.
std::string describe_shard(const std::filesystem::path& path);

/// XXH3 of what lies outside of the pieces in file `index`: HDF5's structure, attributes, the state.
std::uint64_t structure_checksum(const InputFile& file, std::int64_t index, std::span<const StoredTensor> tensors);

}  // namespace oxrse::io

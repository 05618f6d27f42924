#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint/manifest.h"
#include "io/checkpoint/save.h"

namespace oxrse::io {

/// Writes `path`, one rank's HDF5 file of a checkpoint, and waits until it is on the disk. Gives the table of what is in it; the
/// pieces refer to file `file_index`.
std::vector<StoredTensor> write_shard(const std::filesystem::path& path, std::int64_t file_index, const CheckpointState& state,
                                      std::span<const CheckpointEntry> entries);

/// What /state and /meta of a shard hold; the tensors of `state` stay out.
CheckpointState read_shard_state(const std::filesystem::path& path);

}  // namespace oxrse::io

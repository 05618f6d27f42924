#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "io/checkpoint/directory.h"
#include "io/checkpoint/entry.h"
#include "io/checkpoint/shard.h"

namespace oxrse::io {

/// How a checkpoint is stored.
struct SaveOptions {
  bool compress = false;     // byte-shuffled and deflated
  bool incremental = false;  // what has not changed since the checkpoint before is linked to, not written
};

/// Saves the checkpoint checkpoints/step_0000000200/ and makes it the latest one, then removes older ones beyond `keep` (0 keeps
/// all). On return it is on the disk. At any time, also after a kill or a full disk, every checkpoint that was there before is whole.
/// A different checkpoint of the same step, which an earlier run left, is renamed to step_0000000200.older and `warn` told.
/// An Error says what could not be written; then nothing has changed.
void save_checkpoint(const std::filesystem::path& checkpoints, const CheckpointState& state, std::span<const CheckpointEntry> entries,
                     std::int64_t keep, const Warn& warn, const SaveOptions& options = {});

/// The same by several ranks. One of them, the coordinator, calls `begin_save`; then every rank calls `write_shard` with the directory it
/// gave; then the coordinator calls `commit_save` with all summaries, in the order of the writers, or `abandon_save` when a rank failed.
///
/// Makes a directory for the shards, `unfinished_save`; what an interrupted save left is removed.
std::filesystem::path begin_save(const std::filesystem::path& checkpoints, std::int64_t step);
/// An Error when a writer or elements of a tensor are missing or there twice; then, as after any other Error, nothing has changed.
void commit_save(const std::filesystem::path& checkpoints, const CheckpointState& state, std::span<const ShardSummary> shards,
                 std::int64_t keep, const Warn& warn);
std::filesystem::path unfinished_save(const std::filesystem::path& checkpoints, std::int64_t step);
void abandon_save(const std::filesystem::path& checkpoints, std::int64_t step);

/// What an incremental save may link to: the whole checkpoint that was saved last, as far as can be told without reading it.
std::optional<BaseCheckpoint> base_for_links(const std::filesystem::path& checkpoints);

/// An Error when one of `entries` cannot be saved. `write_shard` is only for what passes.
void check_entries(std::span<const CheckpointEntry> entries);

}  // namespace oxrse::io

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/arena.h"
#include "io/checkpoint/entry.h"

namespace oxrse::io {

/// Copies of the tensors of a checkpoint, to be written while training changes the originals. Its memory is allocated once.
class Snapshot {
 public:
  /// What a snapshot of `entries` takes; they may be planned.
  static std::int64_t bytes_for(std::span<const CheckpointEntry> entries);

  /// Makes room for `entries` and touches it, so that `take` only copies: by so many threads, those of training, which stands still.
  Snapshot(std::span<const CheckpointEntry> entries, int threads);

  /// Copies `entries`: those that room was made for, or some of them.
  void take(std::span<const CheckpointEntry> entries);
  /// The copies, under the names and placements of the last `take`.
  [[nodiscard]] std::span<const CheckpointEntry> entries() const { return entries_; }

 private:
  int threads_;
  Arena arena_;
  std::vector<CheckpointEntry> entries_;
};

}  // namespace oxrse::io

#include "io/checkpoint/snapshot.h"

#include <algorithm>
#include <cstring>

namespace oxrse::io {
namespace {

Tensor make_copy(Arena& arena, const CheckpointEntry& entry) {
  return arena.make(entry.tensor.dtype(), entry.tensor.sizes(), Memory::Workspace);
}

/// In parts that threads share: one thread does not reach the memory's bandwidth.
void copy(const Tensor& to, const CheckpointEntry& from) {
  constexpr std::int64_t kPart = std::int64_t{1} << 20U;
  if (from.fill) return from.fill(to);
  const std::int64_t bytes = to.bytes();
#pragma omp parallel for schedule(static) if (bytes > kPart)
  for (std::int64_t begin = 0; begin < bytes; begin += kPart) {
    std::memcpy(to.address() + begin, from.tensor.address() + begin, static_cast<std::size_t>(std::min(kPart, bytes - begin)));
  }
}

}  // namespace

std::int64_t Snapshot::bytes_for(std::span<const CheckpointEntry> entries) {
  Arena arena = Arena::planned();
  for (const CheckpointEntry& entry : entries) make_copy(arena, entry);
  return arena.peak().total();
}

Snapshot::Snapshot(std::span<const CheckpointEntry> entries) : arena_(Arena::allocated(bytes_for(entries))) {
  const ArenaScope scope(arena_);
  for (const CheckpointEntry& entry : entries) {
    const Tensor room = make_copy(arena_, entry);
    std::memset(room.address(), 0, static_cast<std::size_t>(room.bytes()));
  }
}

void Snapshot::take(std::span<const CheckpointEntry> entries) {
  entries_.assign(entries.begin(), entries.end());
  const ArenaScope scope(arena_);  // the copies stay where they are until the next
  for (CheckpointEntry& entry : entries_) {
    const Tensor room = make_copy(arena_, entry);
    copy(room, entry);
    entry.tensor = room;
    entry.fill = {};
  }
}

}  // namespace oxrse::io

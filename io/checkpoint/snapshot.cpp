#include "io/checkpoint/snapshot.h"

#include <algorithm>
#include <cstring>

#include "io/stream_copy.h"

namespace oxrse::io {
namespace {

Tensor make_copy(Arena& arena, const CheckpointEntry& entry) {
  return arena.make(entry.tensor.dtype(), entry.tensor.sizes(), Memory::Workspace);
}

/// Bytes that go from one place to another.
struct Part {
  std::byte* to;
  const std::byte* from;
  std::int64_t bytes;
};

/// Small enough that threads end together, large enough that handing them out costs nothing.
constexpr std::int64_t kPart = std::int64_t{1} << 22U;

void append(std::vector<Part>& parts, const Tensor& to, const ConstTensor& from) {
  for (std::int64_t begin = 0; begin < to.bytes(); begin += kPart) {
    parts.push_back({to.address() + begin, from.address() + begin, std::min(kPart, to.bytes() - begin)});
  }
}

}  // namespace

std::int64_t Snapshot::bytes_for(std::span<const CheckpointEntry> entries) {
  Arena arena = Arena::planned();
  for (const CheckpointEntry& entry : entries) make_copy(arena, entry);
  return arena.peak().total();
}

Snapshot::Snapshot(std::span<const CheckpointEntry> entries, int threads)
    : threads_(threads), arena_(Arena::allocated(bytes_for(entries))) {
  const ArenaScope scope(arena_);
  for (const CheckpointEntry& entry : entries) {
    const Tensor room = make_copy(arena_, entry);
    std::memset(room.address(), 0, static_cast<std::size_t>(room.bytes()));
  }
}

void Snapshot::take(std::span<const CheckpointEntry> entries) {
  entries_.assign(entries.begin(), entries.end());
  const ArenaScope scope(arena_);  // the copies stay where they are until the next
  std::vector<Part> parts;
  for (CheckpointEntry& entry : entries_) {
    const Tensor room = make_copy(arena_, entry);
    entry.fill ? entry.fill(room) : append(parts, room, entry.tensor);
    entry.tensor = room;
    entry.fill = {};
  }
  // One team for all tensors: with one for each, threads that others hold up would be waited for hundreds of times.
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1)
  for (const Part& part : parts) stream_copy(part.to, part.from, part.bytes);
}

}  // namespace oxrse::io

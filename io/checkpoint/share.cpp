#include "io/checkpoint/share.h"

namespace oxrse::io {
namespace {

/// Elements an entry may be cut between: multiples of this.
std::int64_t grain(const CheckpointEntry& entry) {
  const std::int64_t count = entry.tensor.count();
  if (entry.fill) return count;
  const bool box = entry.placement && !entry.placement->region.flat;
  if (!box) return 1;
  return entry.tensor.rank() > 0 && entry.tensor.size(0) > 0 ? count / entry.tensor.size(0) : count;
}

/// The elements [begin, end) of an entry, both multiples of its grain.
CheckpointEntry part_of(const CheckpointEntry& entry, std::int64_t begin, std::int64_t end) {
  if (begin == 0 && end == entry.tensor.count()) return entry;
  CheckpointEntry part = entry;
  Placement place = entry.place();
  const bool box = entry.placement && !place.region.flat;
  if (box) {
    const std::int64_t row = grain(entry);
    part.tensor = entry.tensor.slice(0, begin / row, end / row);
    place.region.offset[0] += begin / row;
    place.region.shape[0] = (end - begin) / row;
  } else {
    const std::int64_t first = place.region.flat ? place.region.offset[0] : 0;
    part.tensor = entry.tensor.reshape({entry.tensor.count()}).slice(0, begin, end);
    place.region = Region::range(first + begin, first + end);
  }
  part.placement = place;
  return part;
}

/// total * i / n without overflow.
std::int64_t cut(std::int64_t total, std::int64_t i, std::int64_t n) { return total / n * i + total % n * i / n; }

}  // namespace

std::vector<CheckpointEntry> share_of(std::span<const CheckpointEntry> entries, const Writer& writer) {
  std::int64_t total = 0;
  for (const CheckpointEntry& entry : entries) total += entry.tensor.bytes();
  const std::int64_t first = cut(total, writer.rank, writer.count), last = cut(total, writer.rank + 1, writer.count);
  std::vector<CheckpointEntry> share;
  std::int64_t position = 0;  // of the entry among all bytes
  for (const CheckpointEntry& entry : entries) {
    const std::int64_t count = entry.tensor.count(), step = std::max<std::int64_t>(grain(entry), 1);
    // A grain belongs to the share its first byte lies in.
    const auto index = [&](std::int64_t cut_at) {
      const std::int64_t bytes = step * size_of(entry.tensor.dtype());
      const std::int64_t before = std::max<std::int64_t>(cut_at - position + bytes - 1, 0) / bytes * step;
      return std::min(before, count);
    };
    if (count == 0) {  // no bytes, but it is part of the checkpoint
      if (writer.rank == 0) share.push_back(entry);
    } else if (const std::int64_t begin = index(first), end = index(last); begin < end) {
      share.push_back(part_of(entry, begin, end));
    }
    position += entry.tensor.bytes();
  }
  return share;
}

}  // namespace oxrse::io

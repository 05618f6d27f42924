#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/launch.h"

// Kernels over many tensors in few launches: tensors are cut into tiles, a block has one tile. The list is an argument of the kernel, so
// nothing is copied to the device before a launch; 4 KiB of arguments hold some 50 tensors.
namespace oxrse::OXRSE_GPU {

inline constexpr std::int64_t kTileElements = 4096;

/// Entries, each with a `count` of elements, and the number of tiles before each.
template <class Entry>
struct TensorList {
  static constexpr int kMost = static_cast<int>((4096 - 256) / (sizeof(Entry) + sizeof(std::int64_t)));
  int count = 0;
  std::int64_t first_tile[kMost + 1] = {};
  Entry entries[kMost];

  [[nodiscard]] bool full() const { return count == kMost; }
  void add(const Entry& entry) {
    entries[count] = entry;
    first_tile[count + 1] = first_tile[count] + divide_up(entry.count, kTileElements);
    ++count;
  }
  [[nodiscard]] std::int64_t tiles() const { return first_tile[count]; }
};

/// The entry of tile `tile`: the last one that starts at or before it.
template <class Entry>
__device__ int entry_of(const TensorList<Entry>& list, std::int64_t tile) {
  int low = 0, high = list.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (list.first_tile[middle] <= tile) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Calls f(entry, i) for the elements of this block's tile that are this thread's.
template <class Entry, class F>
__device__ void for_tile(const TensorList<Entry>& list, F f) {
  const std::int64_t tile = blockIdx.x;
  const int index = entry_of(list, tile);
  const Entry& entry = list.entries[index];
  const std::int64_t begin = (tile - list.first_tile[index]) * kTileElements;
  const std::int64_t end = begin + kTileElements < entry.count ? begin + kTileElements : entry.count;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) f(entry, i);
}

}  // namespace oxrse::OXRSE_GPU

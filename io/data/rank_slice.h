#pragma once

#include <algorithm>
#include <cstdint>

namespace oxrse::io {

/// Samples first, first + 1, ...
struct SampleRange {
  std::int64_t first = 0, count = 0;
};

/// The part of `all` that rank r of n takes: contiguous, in the order of the ranks, sizes at most one apart, the larger ones first. So
/// the ranks together take every sample once, whatever n is, and ranks beyond the samples take none.
constexpr SampleRange rank_slice(const SampleRange& all, std::int64_t rank, std::int64_t ranks) {
  const std::int64_t each = all.count / ranks, larger = all.count % ranks;
  return {.first = all.first + rank * each + std::min(rank, larger), .count = each + (rank < larger ? 1 : 0)};
}

}  // namespace oxrse::io

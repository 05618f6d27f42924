#pragma once

#include "cuda/device.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

// The gradients of a norm's weights: sums over rows. Every block of backward adds up its rows in shared memory, each thread its own
// columns, and writes one row of partial sums; a second launch adds up the partial rows in order. So the bits are the same in every run,
// and the number of partial rows depends on the shape alone.
namespace oxrse::OXRSE_GPU {

/// Blocks that share `rows` rows when each has `threads` threads: enough to fill a GPU, few enough for the partial rows to stay in its
/// cache.
inline std::int64_t partial_rows(std::int64_t rows, int threads) {
  constexpr std::int64_t kThreadsInFlight = 65536;
  const std::int64_t most = kThreadsInFlight / threads;
  return rows < most ? rows : most;
}

/// to[c] = (or +=) sum over i < rows of partials[i * stride + c], c < columns
void sum_columns(Cuda& cuda, float* to, Write write, const float* partials, std::int64_t rows, std::int64_t stride, std::int64_t columns);

}  // namespace oxrse::OXRSE_GPU

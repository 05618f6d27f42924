#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/core/tensor.h"
#include "engine/cpu/parallel.h"

namespace oxrse::cpu {

/// Rows of a tile in sums over rows: at most about 64 tiles, so that the partial sums are few next to the rows they are sums of.
constexpr std::int64_t rows_of_partial(std::int64_t rows) { return std::max<std::int64_t>(32, divide_up(rows, 64)); }

/// result[c] = (or +=) sum over tiles of partials[tile * stride + c], c < columns, in the order of the tiles.
template <class A>
void sum_partials(const Cpu& cpu, A* result, Write write, const A* partials, std::int64_t tiles, std::int64_t stride,
                  std::int64_t columns) {
  constexpr std::int64_t kColumns = 512;
  parallel_tiles(cpu, columns, kColumns, [&](std::int64_t begin, std::int64_t end) {
    A sums[kColumns] = {};
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const A* partial = partials + tile * stride;
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) sums[c - begin] += partial[c];
    }
    if (write == Write::Assign) {
      for (std::int64_t c = begin; c < end; ++c) result[c] = sums[c - begin];
    } else {
      for (std::int64_t c = begin; c < end; ++c) result[c] += sums[c - begin];
    }
  });
}

}  // namespace oxrse::cpu

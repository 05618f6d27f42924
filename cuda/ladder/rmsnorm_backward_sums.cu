#include "cuda/kernels/column_sums.h"
#include "cuda/kernels/kernels.h"
#include "cuda/ladder/ladder.h"
#include "cuda/ladder/rmsnorm_backward.h"
#include "cuda/reduce.h"
#include "engine/ops/elementwise.h"

// Rungs 3 and 4: a block goes over many rows and keeps its part of dw in shared memory, every thread its own columns.
namespace oxrse::OXRSE_GPU::ladder {
namespace {

constexpr int kThreads = 256;

/// The block's rows. `reductions`: shared, one a warp; `dw`: shared, one a column.
template <class T>
__device__ void add_rows(const RmsNormGradient<T>& op, float* reductions, float* dw) {
  const std::int64_t columns = op.x.columns;
  for_strided_columns(columns, threadIdx.x, kThreads, [&](std::int64_t c) { dw[c] = 0; });
  for (std::int64_t n = blockIdx.x; n < op.x.count; n += gridDim.x) {
    float sum = 0;
    for_strided_columns(columns, threadIdx.x, kThreads, [&](std::int64_t c) {
      const float gradient = op.weight_gradient(n, c);
      sum += gradient * widen(op.w[c]);
      dw[c] += gradient;
    });
    const float mean = reduce_block(sum, Plus(), reductions) / static_cast<float>(columns);
    for_strided_columns(columns, threadIdx.x, kThreads, [&](std::int64_t c) { op.write_dx(n, c, mean); });
  }
}

/// One atomic a column and block instead of one an element; which block comes first still decides how dw is rounded.
template <class T>
__global__ void block_sums(RmsNormGradient<T> op) {
  float* dw = shared_memory<float>() + kWarp;
  add_rows(op, shared_memory<float>(), dw);
  for_strided_columns(op.x.columns, threadIdx.x, kThreads, [&](std::int64_t c) { atomicAdd(&op.dw[c], dw[c]); });
}

/// A block's part goes to a row of its own; a second launch adds up those rows in order.
template <class T>
__global__ void ordered_sums(RmsNormGradient<T> op, float* partials) {
  float* dw = shared_memory<float>() + kWarp;
  add_rows(op, shared_memory<float>(), dw);
  float* own = partials + std::int64_t{blockIdx.x} * op.x.columns;
  for_strided_columns(op.x.columns, threadIdx.x, kThreads, [&](std::int64_t c) { own[c] = dw[c]; });
}

template <class T>
Grid grid_for(const RmsNormGradient<T>& op) {
  return {.x = partial_rows(op.x.count, kThreads),
          .threads = kThreads,
          .shared = static_cast<std::size_t>(kWarp + op.x.columns) * sizeof(float)};
}

}  // namespace

void rmsnorm_block_sums(Cuda& cuda, const ops::RmsNorm::Backward& op) {
  if (op.to_dw == Write::Assign) launch(cuda, ops::Fill{.y = op.dw, .value = 0});
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RmsNormGradient<T> operands(op);
    launch<block_sums<T>>(cuda, grid_for(operands), operands);
  });
}

void rmsnorm_ordered_sums(Cuda& cuda, const ops::RmsNorm::Backward& op) {
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RmsNormGradient<T> operands(op);
    const Grid grid = grid_for(operands);
    const std::int64_t columns = operands.x.columns;
    auto* partials = static_cast<float*>(cuda.scratch(static_cast<std::size_t>(grid.x * columns) * sizeof(float)));
    launch<ordered_sums<T>>(cuda, grid, operands, partials);
    sum_columns(cuda, operands.dw, op.to_dw, partials, grid.x, columns, columns);
  });
}

}  // namespace oxrse::OXRSE_GPU::ladder

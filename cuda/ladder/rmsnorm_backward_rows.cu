#include "cuda/kernels/kernels.h"
#include "cuda/ladder/ladder.h"
#include "cuda/ladder/rmsnorm_backward.h"
#include "cuda/reduce.h"
#include "engine/ops/elementwise.h"

// Rungs 1 and 2: the rows are independent but for dw, to which every element is added at once by an atomic.
namespace oxrse::OXRSE_GPU::ladder {
namespace {

constexpr int kThreads = 128;

/// The loops of the formula. Neighbouring threads read addresses that are a row apart: of every 32 bytes that memory gives, one number is
/// used before others take their place in the cache.
template <class T>
__global__ void thread_a_row(RmsNormGradient<T> op) {
  const std::int64_t n = std::int64_t{blockIdx.x} * kThreads + threadIdx.x, columns = op.x.columns;
  if (n >= op.x.count) return;
  float sum = 0;
  for (std::int64_t c = 0; c < columns; ++c) {
    const float gradient = op.weight_gradient(n, c);
    sum += gradient * widen(op.w[c]);
    atomicAdd(&op.dw[c], gradient);
  }
  for (std::int64_t c = 0; c < columns; ++c) op.write_dx(n, c, sum / static_cast<float>(columns));
}

/// The lanes of a warp read neighbouring numbers, and the second loop finds its row in the first cache.
template <class T>
__global__ void warp_a_row(RmsNormGradient<T> op) {
  const std::int64_t n = std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp, columns = op.x.columns;
  if (n >= op.x.count) return;
  const unsigned lane = threadIdx.x % kWarp;
  float sum = 0;
  for_strided_columns(columns, lane, kWarp, [&](std::int64_t c) {
    const float gradient = op.weight_gradient(n, c);
    sum += gradient * widen(op.w[c]);
    atomicAdd(&op.dw[c], gradient);
  });
  const float mean = reduce_warp(sum, Plus()) / static_cast<float>(columns);
  for_strided_columns(columns, lane, kWarp, [&](std::int64_t c) { op.write_dx(n, c, mean); });
}

void clear_sums(Cuda& cuda, const ops::RmsNorm::Backward& op) {
  if (op.to_dw == Write::Assign) launch(cuda, ops::Fill{.y = op.dw, .value = 0});
}

}  // namespace

void rmsnorm_thread_a_row(Cuda& cuda, const ops::RmsNorm::Backward& op) {
  clear_sums(cuda, op);
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RmsNormGradient<T> operands(op);
    launch<thread_a_row<T>>(cuda, {.x = divide_up(operands.x.count, kThreads), .threads = kThreads}, operands);
  });
}

void rmsnorm_warp_a_row(Cuda& cuda, const ops::RmsNorm::Backward& op) {
  clear_sums(cuda, op);
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RmsNormGradient<T> operands(op);
    launch<warp_a_row<T>>(cuda, {.x = divide_up(operands.x.count, kThreads / kWarp), .threads = kThreads}, operands);
  });
}

}  // namespace oxrse::OXRSE_GPU::ladder

#include "cuda/kernels/column_sums.h"
#include "cuda/kernels/kernels.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"

// Forward: one block a row, one pack of 16 bytes a thread and turn; x is read from memory once and from the cache once. Backward: a block
// goes over its rows and keeps its part of dw in shared memory (column_sums.h); dy and x are read from memory once, dx is written once.
// Short rows (the heads of QK-norm) leave most threads of a warp without a pack: 80 numbers in bf16 use 10 of 32.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

template <class T>
__global__ void rmsnorm_forward(Rows<T> y, float* rstd, Rows<const T> x, Rows<const T> w, float eps) {
  const std::int64_t n = blockIdx.x, columns = x.columns;
  float squares = 0;
  for_packs<T>(columns, [&](std::int64_t c) {
    const Pack<T> p = load(x[n], c, columns, x.aligned);
    for (const float v : p.v) squares += v * v;
  });
  squares = reduce_block(squares, Plus(), shared_memory<float>());
  const float r = 1.0F / sqrtf(squares / static_cast<float>(columns) + eps);
  if (threadIdx.x == 0) rstd[n] = r;
  for_packs<T>(columns, [&](std::int64_t c) {
    Pack<T> p = load(x[n], c, columns, x.aligned);
    const Pack<T> weight = load(w[0], c, columns, w.aligned);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) p.v[i] = p.v[i] * r * weight.v[i];
    store(y[n], c, columns, y.aligned, p);
  });
}

/// Shared memory: partial sums of the block's reductions, then dw, one a column.
template <class T>
__global__ void rmsnorm_backward(Rows<T> dx, float* partials, Rows<const T> dy, Rows<const T> x, Rows<const T> w, const float* rstd,
                                 bool add) {
  float* reductions = shared_memory<float>();
  float* dw = reductions + kWarp;
  const std::int64_t columns = x.columns;
  for_columns<T>(columns, [&](std::int64_t c) { dw[c] = 0; });
  for (std::int64_t n = blockIdx.x; n < x.count; n += gridDim.x) {
    const float r = rstd[n];
    float sum = 0;  // of dy*w*xhat
    for_packs<T>(columns, [&](std::int64_t c) {
      const Pack<T> p = load(x[n], c, columns, x.aligned), d = load(dy[n], c, columns, dy.aligned),
                    weight = load(w[0], c, columns, w.aligned);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) {
        const float d_xhat = d.v[i] * (p.v[i] * r);
        sum += d_xhat * weight.v[i];
        if (c + i < columns) dw[c + i] += d_xhat;
      }
    });
    const float mean = reduce_block(sum, Plus(), reductions) / static_cast<float>(columns);
    for_packs<T>(columns, [&](std::int64_t c) {
      const Pack<T> p = load(x[n], c, columns, x.aligned), d = load(dy[n], c, columns, dy.aligned),
                    weight = load(w[0], c, columns, w.aligned);
      Pack<T> result;
      if (add) result = load(static_cast<const T*>(dx[n]), c, columns, dx.aligned);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) {
        const float gradient = r * (d.v[i] * weight.v[i] - p.v[i] * r * mean);
        result.v[i] = add ? result.v[i] + gradient : gradient;
      }
      store(dx[n], c, columns, dx.aligned, result);
    });
  }
  for_columns<T>(columns, [&](std::int64_t c) { partials[std::int64_t{blockIdx.x} * columns + c] = dw[c]; });
}

}  // namespace

void launch(Cuda& cuda, const RmsNorm& op) {
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows<const T> x(op.x);
    const Grid grid{.x = x.count, .threads = threads_for_row<T>(x.columns), .shared = kWarp * sizeof(float)};
    launch<rmsnorm_forward<T>>(cuda, grid, Rows<T>(op.y), op.rstd.data<float>(), x, row_of<T>(op.w), op.eps);
  });
}

void launch(Cuda& cuda, const RmsNorm::Backward& op) {
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows<const T> x(op.x);
    const int threads = threads_for_row<T>(x.columns);
    const std::int64_t blocks = partial_rows(x.count, threads);
    auto* partials = static_cast<float*>(cuda.scratch(static_cast<std::size_t>(blocks * x.columns) * sizeof(float)));
    const Grid grid{.x = blocks, .threads = threads, .shared = static_cast<std::size_t>(kWarp + x.columns) * sizeof(float)};
    launch<rmsnorm_backward<T>>(cuda, grid, Rows<T>(op.dx), partials, Rows<const T>(op.dy), x, row_of<T>(op.w), op.rstd.data<float>(),
                                op.to_dx == Write::Add);
    sum_columns(cuda, op.dw.data<float>(), op.to_dw, partials, blocks, x.columns, x.columns);
  });
}

}  // namespace oxrse::OXRSE_GPU

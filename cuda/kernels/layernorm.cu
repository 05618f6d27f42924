#include "cuda/kernels/column_sums.h"
#include "cuda/kernels/kernels.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"

// As rmsnorm.cu. The mean of the deviations from the first mean corrects that mean, which rounding left off by up to C/16 units in the last
// place (Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983): rows with a large mean keep their digits.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

template <class T>
__global__ void layernorm_forward(Rows<T> y, float* means, float* rstd, Rows<const T> x, Rows<const T> w, Rows<const T> b, float eps) {
  const std::int64_t n = blockIdx.x, columns = x.columns;
  const auto count = static_cast<float>(columns);
  float sum = 0;
  for_packs<T>(columns, [&](std::int64_t c) {
    const Pack<T> p = load(x[n], c, columns, x.aligned);
    for (const float v : p.v) sum += v;
  });
  const float mean = reduce_block(sum, Plus(), shared_memory<float>()) / count;
  Two moments{0, 0};  // sums of deviations and of their squares
  for_packs<T>(columns, [&](std::int64_t c) {
    const Pack<T> p = load(x[n], c, columns, x.aligned);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      const float d = c + i < columns ? p.v[i] - mean : 0.0F;
      moments.first += d;
      moments.second += d * d;
    }
  });
  moments = reduce_block(moments, PlusTwo(), shared_memory<Two>());
  const float shift = moments.first / count;
  const float r = 1.0F / sqrtf(fmaxf(0.0F, moments.second / count - shift * shift) + eps);
  if (threadIdx.x == 0) {
    means[n] = mean + shift;
    rstd[n] = r;
  }
  for_packs<T>(columns, [&](std::int64_t c) {
    Pack<T> p = load(x[n], c, columns, x.aligned);
    const Pack<T> weight = load(w[0], c, columns, w.aligned);
    Pack<T> bias{};
    if (b.base != nullptr) bias = load(b[0], c, columns, b.aligned);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) p.v[i] = ((p.v[i] - mean) - shift) * r * weight.v[i] + bias.v[i];
    store(y[n], c, columns, y.aligned, p);
  });
}

/// Shared memory: partial sums of the block's reductions, then dw and db, one a column. A row of `partials` has dw and db.
template <class T>
__global__ void layernorm_backward(Rows<T> dx, float* partials, Rows<const T> dy, Rows<const T> x, Rows<const T> w, const float* means,
                                   const float* rstd, bool add) {
  Two* reductions = shared_memory<Two>();
  const std::int64_t columns = x.columns;
  float* dw = reinterpret_cast<float*>(reductions + kWarp);
  float* db = dw + columns;
  for_columns<T>(columns, [&](std::int64_t c) { dw[c] = db[c] = 0; });
  for (std::int64_t n = blockIdx.x; n < x.count; n += gridDim.x) {
    const float mean = means[n], r = rstd[n];
    Two sums{0, 0};  // of dy*w and of dy*w*xhat
    for_packs<T>(columns, [&](std::int64_t c) {
      const Pack<T> p = load(x[n], c, columns, x.aligned), d = load(dy[n], c, columns, dy.aligned),
                    weight = load(w[0], c, columns, w.aligned);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) {
        const float d_xhat = d.v[i] * ((p.v[i] - mean) * r);
        sums.first += d.v[i] * weight.v[i];
        sums.second += d_xhat * weight.v[i];
        if (c + i < columns) {
          dw[c + i] += d_xhat;
          db[c + i] += d.v[i];
        }
      }
    });
    sums = reduce_block(sums, PlusTwo(), reductions);
    const float mean_g = sums.first / static_cast<float>(columns), mean_g_xhat = sums.second / static_cast<float>(columns);
    for_packs<T>(columns, [&](std::int64_t c) {
      const Pack<T> p = load(x[n], c, columns, x.aligned), d = load(dy[n], c, columns, dy.aligned),
                    weight = load(w[0], c, columns, w.aligned);
      Pack<T> result;
      if (add) result = load(static_cast<const T*>(dx[n]), c, columns, dx.aligned);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) {
        const float gradient = r * (d.v[i] * weight.v[i] - mean_g - (p.v[i] - mean) * r * mean_g_xhat);
        result.v[i] = add ? result.v[i] + gradient : gradient;
      }
      store(dx[n], c, columns, dx.aligned, result);
    });
  }
  float* row = partials + std::int64_t{blockIdx.x} * 2 * columns;
  for_columns<T>(columns, [&](std::int64_t c) {
    row[c] = dw[c];
    row[columns + c] = db[c];
  });
}

}  // namespace

void launch(Cuda& cuda, const LayerNorm& op) {
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows<const T> x(op.x);
    const Grid grid{.x = x.count, .threads = threads_for_row<T>(x.columns), .shared = kWarp * sizeof(Two)};
    const auto b = op.b.present() ? row_of<T>(op.b) : Rows<const T>();
    launch<layernorm_forward<T>>(cuda, grid, Rows<T>(op.y), op.mean.data<float>(), op.rstd.data<float>(), x, row_of<T>(op.w), b, op.eps);
  });
}

void launch(Cuda& cuda, const LayerNorm::Backward& op) {
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows<const T> x(op.x);
    const int threads = threads_for_row<T>(x.columns);
    const std::int64_t blocks = partial_rows(x.count, threads), stride = 2 * x.columns;
    auto* partials = static_cast<float*>(cuda.scratch(static_cast<std::size_t>(blocks * stride) * sizeof(float)));
    const Grid grid{.x = blocks, .threads = threads, .shared = kWarp * sizeof(Two) + static_cast<std::size_t>(stride) * sizeof(float)};
    launch<layernorm_backward<T>>(cuda, grid, Rows<T>(op.dx), partials, Rows<const T>(op.dy), x, row_of<T>(op.w), op.mean.data<float>(),
                                  op.rstd.data<float>(), op.to_dx == Write::Add);
    sum_columns(cuda, op.dw.data<float>(), op.to_dw, partials, blocks, stride, x.columns);
    if (op.db.present()) sum_columns(cuda, op.db.data<float>(), op.to_dw, partials + x.columns, blocks, stride, x.columns);
  });
}

}  // namespace oxrse::OXRSE_GPU

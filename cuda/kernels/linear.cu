#include "cuda/kernels/column_sums.h"
#include "cuda/kernels/kernels.h"

// Matrix products are the library's, with GELU and its derivative in their epilogues where it can: that saves reading (N, O) again and a
// launch. The gradient of a bias is ours: the library's epilogue cannot add to what is there. dbias: every block adds up 64 rows of dy, a
// pack of columns a thread, into a row of partial sums: dy is read once more than a fused sum would need.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr int kThreads = 128;
constexpr std::int64_t kRowsEach = 64;

template <class T>
__global__ void bias_partials(float* partials, Rows<const T> dy, std::int64_t column_blocks) {
  const std::int64_t part = blockIdx.x / column_blocks, block = blockIdx.x % column_blocks;
  const std::int64_t c = (block * kThreads + threadIdx.x) * kPack<T>;
  if (c >= dy.columns) return;
  const std::int64_t begin = part * kRowsEach, end = begin + kRowsEach < dy.count ? begin + kRowsEach : dy.count;
  float sums[kPack<T>] = {};
  for (std::int64_t n = begin; n < end; ++n) {
    const Pack<T> p = load(dy[n], c, dy.columns, dy.aligned);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) sums[i] += p.v[i];
  }
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) {
    if (c + i < dy.columns) partials[part * dy.columns + c + i] = sums[i];
  }
}

template <class T>
void launch_bias_gradient(Cuda& cuda, const Linear::Backward& op) {
  const Rows<const T> dy(op.dy);
  const std::int64_t parts = divide_up(dy.count, kRowsEach), column_blocks = divide_up(dy.columns, std::int64_t{kThreads} * kPack<T>);
  auto* partials = static_cast<float*>(cuda.scratch(static_cast<std::size_t>(parts * dy.columns) * sizeof(float)));
  launch<bias_partials<T>>(cuda, {.x = parts * column_blocks, .threads = kThreads}, partials, dy, column_blocks);
  sum_columns(cuda, op.dbias.data<float>(), op.to_dw, partials, parts, dy.columns, dy.columns);
}

/// The product; `activation` is for where the library cannot do it in the same pass.
template <class F>
void multiply_and(Cuda& cuda, Product product, const F& activation) {
  const bool activated = product.has_activation();
  if (activated && cuda.multiply_activated(product)) return;
  product.gelu = {};
  product.before = {};
  cuda.multiply(product);
  if (activated) activation();
}

}  // namespace

void launch(Cuda& cuda, const Linear& op) {
  const Product product{{.c = op.y, .a = op.x, .b = op.w, .transpose_b = true, .bias = op.bias, .residual = op.residual}, op.gelu};
  multiply_and(cuda, product, [&] { launch(cuda, Gelu{.y = op.gelu, .x = op.y}); });
}

void launch(Cuda& cuda, const Linear::Backward& op) {
  if (op.dx.present()) {
    const Product product{{.c = op.dx, .a = op.dy, .b = op.w, .to_c = op.to_dx}, {}, op.before};
    multiply_and(cuda, product, [&] { launch(cuda, Gelu::Backward{.dx = op.dx, .dy = op.dx, .x = op.before}); });
  }
  if (op.dw.present()) cuda.multiply({{.c = op.dw, .a = op.dy, .b = op.x, .transpose_a = true, .to_c = op.to_dw}});
  if (op.dbias.present()) {
    visit_compute(op.dy.dtype(), [&](auto tag) { launch_bias_gradient<typename decltype(tag)::type>(cuda, op); });
  }
}

}  // namespace oxrse::OXRSE_GPU

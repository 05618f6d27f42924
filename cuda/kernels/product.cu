#include "cuda/kernels/kernels.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

// The product of matrices that the library has no algorithm for: empty sums, addresses it does not take. A block computes 16 x 16 results,
// one a thread, from tiles of A and B in shared memory, in f32 and in the order of k. No tensor cores: a hundredth of the library's speed.
namespace oxrse::OXRSE_GPU {
namespace {

constexpr int kTile = 16;

/// Element (i, j) of op(X) at data[i * row + j * column].
template <class T>
struct Operand {
  const T* data = nullptr;
  std::int64_t row = 0, column = 0;

  Operand() = default;
  Operand(const ConstTensor& t, bool transposed)
      : data(t.data<T>()), row(transposed ? 1 : t.stride(0)), column(transposed ? t.stride(0) : 1) {}
  __device__ __forceinline__ float operator()(std::int64_t i, std::int64_t j) const { return widen(data[i * row + j * column]); }
};

template <class T, class R>
struct Arguments {
  R* c;
  std::int64_t c_stride, m, n, k;
  Operand<T> a, b;
  const R* bias;
  Operand<R> residual;  // what the product is added to
  bool add;             // whether there is a residual
  std::int64_t column_tiles;
};

template <class T, class R>
__global__ void product(Arguments<T, R> p) {
  auto* a_tile = shared_memory<float>();
  float* b_tile = a_tile + kTile * kTile;
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  const std::int64_t i = blockIdx.x / p.column_tiles * kTile + y, j = blockIdx.x % p.column_tiles * kTile + x;
  float sum = 0;
  for (std::int64_t begin = 0; begin < p.k; begin += kTile) {
    a_tile[y * kTile + x] = i < p.m && begin + x < p.k ? p.a(i, begin + x) : 0.0F;
    b_tile[y * kTile + x] = begin + y < p.k && j < p.n ? p.b(begin + y, j) : 0.0F;
    __syncthreads();
#pragma unroll
    for (int l = 0; l < kTile; ++l) sum += a_tile[y * kTile + l] * b_tile[l * kTile + x];
    __syncthreads();
  }
  if (i >= p.m || j >= p.n) return;
  if (p.bias != nullptr) sum += widen(p.bias[j]);
  if (p.add) sum += p.residual(i, j);
  p.c[i * p.c_stride + j] = narrow<R>(sum);
}

template <class T, class R>
void launch_product(Cuda& cuda, const Product& p) {
  const ConstTensor added = p.to_c == Write::Add ? ConstTensor(p.c) : p.residual;
  const std::int64_t row_tiles = divide_up(p.c.size(0), kTile), column_tiles = divide_up(p.c.size(1), kTile);
  const Arguments<T, R> arguments{.c = p.c.data<R>(),
                                  .c_stride = p.c.stride(0),
                                  .m = p.c.size(0),
                                  .n = p.c.size(1),
                                  .k = p.a.size(p.transpose_a ? 0 : 1),
                                  .a = Operand<T>(p.a, p.transpose_a),
                                  .b = Operand<T>(p.b, p.transpose_b),
                                  .bias = p.bias.present() ? p.bias.data<R>() : nullptr,
                                  .residual = added.present() ? Operand<R>(added, false) : Operand<R>(),
                                  .add = added.present(),
                                  .column_tiles = column_tiles};
  launch<product<T, R>>(cuda, {.x = row_tiles * column_tiles, .threads = kTile * kTile, .shared = 2 * kTile * kTile * sizeof(float)},
                        arguments);
}

}  // namespace

void multiply(Cuda& cuda, const Product& p) {
  visit_compute(p.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (p.c.dtype() == DType::F32) {
      launch_product<T, float>(cuda, p);
    } else {
      launch_product<T, T>(cuda, p);
    }
  });
}

}  // namespace oxrse::OXRSE_GPU

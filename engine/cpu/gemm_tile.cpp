#include "engine/cpu/gemm_tile.h"

#include <cblas.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "engine/cpu/parallel.h"

namespace oxrse::cpu {
namespace {

void blas(const GemmTile& t, int lda, int ldb, const float* a, const float* b, float beta) {
  cblas_sgemm(CblasRowMajor, t.a.transposed ? CblasTrans : CblasNoTrans, t.b.transposed ? CblasTrans : CblasNoTrans, static_cast<int>(t.m),
              static_cast<int>(t.n), static_cast<int>(t.k), 1, a, lda, b, ldb, beta, reinterpret_cast<float*>(t.c),
              static_cast<int>(t.ldc));
}
void blas(const GemmTile& t, int lda, int ldb, const double* a, const double* b, double beta) {
  cblas_dgemm(CblasRowMajor, t.a.transposed ? CblasTrans : CblasNoTrans, t.b.transposed ? CblasTrans : CblasNoTrans, static_cast<int>(t.m),
              static_cast<int>(t.n), static_cast<int>(t.k), 1, a, lda, b, ldb, beta, reinterpret_cast<double*>(t.c),
              static_cast<int>(t.ldc));
}

/// The tile by a BLAS, whose own threads are never used.
template <class R>
void gemm_tile_blas(const GemmTile& t) {
  static const bool single = (openblas_set_num_threads(1), true);
  static_cast<void>(single);
  blas(t, static_cast<int>(t.a.stride), static_cast<int>(t.b.stride), reinterpret_cast<const R*>(t.a.data),
       reinterpret_cast<const R*>(t.b.data), t.add ? R{1} : R{0});
}

/// Copies a stored matrix of `rows` x `columns` without gaps, in the accumulator type.
template <class T>
GemmOperand converted(const GemmOperand& x, std::int64_t rows, std::int64_t columns, accumulator_t<T>* to) {
  if (x.transposed) std::swap(rows, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* from = reinterpret_cast<const T*>(x.data) + i * x.stride;
    for (std::int64_t j = 0; j < columns; ++j) to[i * columns + j] = static_cast<accumulator_t<T>>(from[j]);
  }
  return {reinterpret_cast<const std::byte*>(to), columns, x.transposed};
}

/// The tile in the accumulator type, from copies of ranges of k.
template <class T>
void gemm_tile_converted(const GemmTile& t) {
  using R = accumulator_t<T>;
  constexpr std::int64_t kRange = 1024;
  const std::int64_t range = std::min(kRange, t.k);
  const Scratch<R> a(t.m * range), b(range * t.n);
  for (std::int64_t k = 0; k < t.k; k += range) {
    const std::int64_t length = std::min(range, t.k - k);
    GemmTile part = t;
    part.k = length;
    part.type = dtype_of<R>;
    part.a = converted<T>(t.a.at(0, k, t.type), t.m, length, a.data());
    part.b = converted<T>(t.b.at(k, 0, t.type), length, t.n, b.data());
    part.add = t.add || k > 0;
    gemm_tile(part);
  }
}

void clear(const GemmTile& t) {
  const std::int64_t size = size_of(accumulator_of(t.type));
  for (std::int64_t i = 0; i < t.m; ++i) std::fill_n(t.c + i * t.ldc * size, t.n * size, std::byte{0});
}

}  // namespace

void gemm_tile(const GemmTile& tile) {
  if (tile.k == 0) {
    if (!tile.add) clear(tile);
    return;
  }
  const bool narrow = std::max(tile.a.stride, tile.b.stride) <= kWidestRow;
  if (narrow && gemm_tile_onednn(tile)) return;
  visit_floating(tile.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, accumulator_t<T>>) {
      if (narrow) return gemm_tile_blas<T>(tile);
    }
    gemm_tile_converted<T>(tile);
  });
}

}  // namespace oxrse::cpu

#pragma once

#include <cstdint>
#include <cstring>

namespace oxrse::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

/// As many numbers as a vector register of the instruction set compiled for holds, by the compiler's vector extension.
template <class R>
struct SimdOf {
  using type __attribute__((vector_size(kVectorBytes))) = R;
};
template <class R>
using Simd = typename SimdOf<R>::type;
template <class R>
inline constexpr std::int64_t kWidth = kVectorBytes / static_cast<std::int64_t>(sizeof(R));

/// Rows of C that the small product keeps in registers: 8 x 2 vectors of AVX-512's 32 registers reach 97% of the multiply-add units
/// (AMD Zen 5, 64 x 64 x 64 in f32), 4 x 2 of 16 registers leave room for the operands.
inline constexpr int kPanelVectors = 2;
inline constexpr int kPanelRows = kVectorBytes == 64 ? 8 : 4;

/// A matrix read element by element: (i, k) is at data[i * row + k * column].
template <class R>
struct Elements {
  const R* data;
  std::int64_t row, column;
};

/// c[i, j] += sum_k a(i, k) b[k, j] for kRows rows and kVectors vectors of columns.
template <class R, int kRows, int kVectors>
inline void add_panel(std::int64_t k_count, Elements<R> a, const R* b, std::int64_t ldb, R* c, std::int64_t ldc) {
  Simd<R> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) std::memcpy(&sum[i][j], c + i * ldc + j * kWidth<R>, kVectorBytes);
  }
  for (std::int64_t k = 0; k < k_count; ++k) {
    Simd<R> row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) std::memcpy(&row[j], b + k * ldb + j * kWidth<R>, kVectorBytes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const R x = a.data[i * a.row + k * a.column];
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) std::memcpy(c + i * ldc + j * kWidth<R>, &sum[i][j], kVectorBytes);
  }
}

/// c (m, n) += a (m, k) b (k, n) with everything in the first cache. m is a multiple of kPanelRows, n of kWidth.
template <class R>
inline void add_product(std::int64_t m, std::int64_t n, std::int64_t k, Elements<R> a, const R* b, std::int64_t ldb, R* c,
                        std::int64_t ldc) {
  constexpr std::int64_t kPanel = kPanelVectors * kWidth<R>;
  std::int64_t j = 0;
  for (; j + kPanel <= n; j += kPanel) {
    for (std::int64_t i = 0; i < m; i += kPanelRows) {
      add_panel<R, kPanelRows, kPanelVectors>(k, {a.data + i * a.row, a.row, a.column}, b + j, ldb, c + i * ldc + j, ldc);
    }
  }
  for (; j < n; j += kWidth<R>) {
    for (std::int64_t i = 0; i < m; i += kPanelRows) {
      add_panel<R, kPanelRows, 1>(k, {a.data + i * a.row, a.row, a.column}, b + j, ldb, c + i * ldc + j, ldc);
    }
  }
}

}  // namespace oxrse::cpu

#pragma once

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/core/tensor.h"

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

/// Two bf16 that neighbour along the sum of a product; processors with AVX512-BF16 multiply and add both at once, in f32.
struct Bf16Pair {
  std::uint32_t bits;
};

/// Numbers of a sum that one element E holds.
template <class E>
inline constexpr std::int64_t kPack = std::is_same_v<E, Bf16Pair> ? 2 : 1;

/// A matrix read element by element, from any address: (i, k) is `i * row + k * column` bytes after `data`.
template <class E>
struct Elements {
  const void* data;
  std::int64_t row, column;

  [[nodiscard]] Elements at(std::int64_t i) const { return {static_cast<const std::byte*>(data) + i * row, row, column}; }
  [[nodiscard]] E get(std::int64_t i, std::int64_t k) const {
    E element;
    std::memcpy(&element, static_cast<const std::byte*>(data) + i * row + k * column, sizeof(E));
    return element;
  }
};

/// sum + x * row
template <class R>
inline Simd<R> multiply_add(Simd<R> sum, R x, Simd<R> row) {
  return sum + x * row;
}
#ifdef __AVX512BF16__
inline Simd<float> multiply_add(Simd<float> sum, Bf16Pair x, Simd<float> row) {
  return Simd<float>(_mm512_dpbf16_ps(__m512(sum), __m512bh(_mm512_set1_epi32(static_cast<int>(x.bits))), __m512bh(row)));
}
#endif

/// c[i, j] = (or +=) sum_k a(i, k) b[k, j] for kRows rows and kVectors vectors of columns. R: type of the sums.
template <class R, int kRows, int kVectors, Write kTo, class E>
inline void panel(std::int64_t k_count, Elements<E> a, const E* b, std::int64_t ldb, R* c, std::int64_t ldc) {
  static_assert(sizeof(E) == sizeof(R));
  Simd<R> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      sum[i][j] = Simd<R>{};
      if constexpr (kTo == Write::Add) std::memcpy(&sum[i][j], c + i * ldc + j * kWidth<R>, kVectorBytes);
    }
  }
  for (std::int64_t k = 0; k < k_count; ++k) {
    Simd<R> row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) std::memcpy(&row[j], b + k * ldb + j * kWidth<R>, kVectorBytes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const E x = a.get(i, k);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] = multiply_add(sum[i][j], x, row[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) std::memcpy(c + i * ldc + j * kWidth<R>, &sum[i][j], kVectorBytes);
  }
}

/// c (m, n) = (or +=) a (m, k) b (k, n) with everything in the first cache. m is a multiple of kPanelRows, n of kWidth; k counts
/// elements.
template <Write kTo, class R, class E>
inline void small_product(std::int64_t m, std::int64_t n, std::int64_t k, Elements<E> a, const E* b, std::int64_t ldb, R* c,
                          std::int64_t ldc) {
  constexpr std::int64_t kPanel = kPanelVectors * kWidth<R>;
  std::int64_t j = 0;
  for (; j + kPanel <= n; j += kPanel) {
    for (std::int64_t i = 0; i < m; i += kPanelRows) {
      panel<R, kPanelRows, kPanelVectors, kTo>(k, a.at(i), b + j, ldb, c + i * ldc + j, ldc);
    }
  }
  for (; j < n; j += kWidth<R>) {
    for (std::int64_t i = 0; i < m; i += kPanelRows) panel<R, kPanelRows, 1, kTo>(k, a.at(i), b + j, ldb, c + i * ldc + j, ldc);
  }
}

/// Every second number of two vectors in turn: a0 b0 a1 b1 ... of their lower (kHigh 0) or upper (1) halves.
template <int kHigh, class V, int... kIndex>
inline V interleave(V a, V b, std::integer_sequence<int, kIndex...> /*of the width*/) {
  constexpr int kCount = sizeof...(kIndex);
  return __builtin_shufflevector(a, b, (kHigh * kCount / 2 + kIndex / 2 + kIndex % 2 * kCount)...);
}

/// Swaps rows and columns of kWidth x kWidth numbers: each of log2(kWidth) rounds interleaves the two halves of the rows.
template <class R>
inline void transpose_square(Simd<R>* rows) {
  constexpr int kCount = static_cast<int>(kWidth<R>);
  constexpr std::make_integer_sequence<int, kCount> kAll{};
#pragma GCC unroll 4
  for (int round = 1; round < kCount; round *= 2) {
    Simd<R> next[kCount];
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) {
      next[2 * i] = interleave<0>(rows[i], rows[i + kCount / 2], kAll);
      next[2 * i + 1] = interleave<1>(rows[i], rows[i + kCount / 2], kAll);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) rows[i] = next[i];
  }
}

}  // namespace oxrse::cpu

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/cpu/attention_tile.h"
#include "engine/cpu/convert.h"

// Operands of attention's small products in the form the multiply-add instructions want. A product's left operand is read element by
// element, its right one vector by vector. bf16 is multiplied in pairs where the processor can; all else in the accumulator type.
namespace oxrse::cpu {

#ifdef __AVX512BF16__
template <class T>
inline constexpr bool kPaired = std::is_same_v<T, bf16>;
#else
template <class T>
inline constexpr bool kPaired = false;
#endif

/// An element of an operand made from numbers of type T.
template <class T>
using Packed = std::conditional_t<kPaired<T>, Bf16Pair, accumulator_t<T>>;
/// Numbers as they stand in memory in a left operand whose sum runs along the rows.
template <class T>
using Unit = std::conditional_t<kPaired<T>, T, accumulator_t<T>>;

/// Whether memory holds such elements one after the other.
template <class T>
inline constexpr bool kAsStored = std::is_same_v<T, Unit<T>>;

template <class T>
Packed<T> packed(T first, T second) {
  if constexpr (kPaired<T>) {
    return {first.bits | static_cast<std::uint32_t>(second.bits) << 16U};
  } else {
    return static_cast<accumulator_t<T>>(first);
  }
}

/// The rows of a head as a left operand, sums along d; rows past `count` up to `rows` are zero. Used where they are if they can be;
/// `buffer` has room for rows x (d + 1).
template <class T>
Elements<Packed<T>> left_rows(HeadRows<const T> from, std::int64_t count, std::int64_t rows, std::int64_t d, Unit<T>* buffer) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Unit<T>)), kStep = kPack<Packed<T>>;
  if constexpr (kAsStored<T>) {
    if (count == rows && d % kStep == 0) return {from.data, from.stride * kSize, kStep * kSize};
  }
  const std::int64_t width = padded(d, kStep);
  std::fill_n(buffer, rows * width, Unit<T>{});
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < d; ++j) buffer[i * width + j] = convert<Unit<T>>(from.data[i * from.stride + j]);
  }
  return {buffer, width * kSize, kStep * kSize};
}

/// A right operand: (k, n) is at data[k * stride + n].
template <class E>
struct Right {
  const E* data;
  std::int64_t stride;

  [[nodiscard]] const E* from(std::int64_t row) const { return data + row / kPack<E> * stride; }
};

/// The rows of a head as a right operand, sums along the rows: `width` columns (a multiple of kWidth), zero past d and past `count` rows.
/// `buffer` has room for rows x width.
template <class T>
Right<Packed<T>> right_rows(HeadRows<const T> from, std::int64_t count, std::int64_t rows, std::int64_t d, std::int64_t width,
                            Packed<T>* buffer) {
  constexpr std::int64_t kStep = kPack<Packed<T>>;
  if constexpr (std::is_same_v<T, Packed<T>>) {
    if (count == rows && d == width) return {from.data, from.stride};
  }
  for (std::int64_t i = 0; i < rows; i += kStep) {
    Packed<T>* to = buffer + i / kStep * width;
    if (i + kStep <= count) {
      const T *first = from.data + i * from.stride, *second = first + (kStep - 1) * from.stride;
      for (std::int64_t j = 0; j < d; ++j) to[j] = packed(first[j], second[j]);
    } else if (i < count) {
      for (std::int64_t j = 0; j < d; ++j) to[j] = packed(from.data[i * from.stride + j], T{});
    } else {
      std::fill_n(to, d, Packed<T>{});
    }
    std::fill(to + d, to + width, Packed<T>{});
  }
  return {buffer, width};
}

/// The numbers of `row`, which has d, that make elements [first, first + kWidth); 0 past the end.
template <class T>
Simd<accumulator_t<T>> load_elements(const T* row, std::int64_t first, std::int64_t d) {
  constexpr std::int64_t kStep = kPack<Packed<T>>, kSide = kWidth<accumulator_t<T>>;
  const T* from = row + first * kStep;
  const std::int64_t count = std::min(kSide * kStep, d - first * kStep);
  Simd<accumulator_t<T>> result;
  if (kAsStored<T> && count == kSide * kStep) {
    std::memcpy(&result, from, sizeof result);
    return result;
  }
  Packed<T> elements[kSide] = {};
  for (std::int64_t i = 0; i < count; i += kStep) elements[i / kStep] = packed(from[i], i + kStep <= count ? from[i + kStep - 1] : T{});
  std::memcpy(&result, elements, sizeof result);
  return result;
}

/// The rows of a head as a right operand of kBlock columns, one row a column, sums along d; columns past `count` are zero.
template <class T>
void transpose(HeadRows<const T> from, std::int64_t count, std::int64_t d, Packed<T>* to) {
  using R = accumulator_t<T>;
  constexpr std::int64_t kSide = kWidth<R>;
  const std::int64_t elements = divide_up(d, kPack<Packed<T>>);
  for (std::int64_t i = 0; i < kBlock; i += kSide) {
    for (std::int64_t j = 0; j < elements; j += kSide) {
      Simd<R> rows[kSide];
      for (std::int64_t r = 0; r < kSide; ++r) {
        rows[r] = i + r < count ? load_elements(from.data + (i + r) * from.stride, j, d) : Simd<R>{};
      }
      transpose_square<R>(rows);
      for (std::int64_t c = 0; c < std::min(kSide, elements - j); ++c) std::memcpy(to + (j + c) * kBlock + i, &rows[c], kVectorBytes);
    }
  }
}

/// A tile of kBlock x kBlock numbers [key, query] that products go on with.
template <class T>
class TileOperand {
  using R = accumulator_t<T>;
  using E = Packed<T>;
  static constexpr bool kCopies = !std::is_same_v<E, R>;

 public:
  /// Numbers are made in `values`; copies are made only where the processor wants another form.
  explicit TileOperand(R* values)
      : values_(values), pairs_(kCopies ? kBlock * kBlock / kPack<E> : 0), rows_(kCopies ? kBlock * kBlock : 0) {}

  /// Packs a group of keys, for sums along keys.
  void pack_keys(std::int64_t g, const Range& lanes) const {
    if constexpr (kCopies) {
      for (std::int64_t i = g * kGroup; i < (g + 1) * kGroup; i += 2) {
        const R* row = values_ + i * kBlock;
        E* to = pairs_.data() + i / 2 * kBlock;
#pragma omp simd
        for (std::int64_t j = lanes.begin; j < lanes.end; ++j) {
          to[j].bits = bf16(row[j]).bits | static_cast<std::uint32_t>(bf16(row[j + kBlock]).bits) << 16U;
        }
      }
    }
  }
  /// Packs a group of keys, for sums along queries.
  void pack_queries(std::int64_t g, const Range& lanes) const {
    if constexpr (kCopies) {
      for (std::int64_t i = g * kGroup * kBlock; i < (g + 1) * kGroup * kBlock; i += kBlock) {
#pragma omp simd
        for (std::int64_t j = lanes.begin; j < lanes.end; ++j) rows_[i + j] = convert<Unit<T>>(values_[i + j]);
      }
    }
  }

  /// (query, key) for the queries of group g, keys from `first` on.
  [[nodiscard]] Elements<E> by_query(std::int64_t g, std::int64_t first) const {
    return {elements() + first / kPack<E> * kBlock + g * kGroup, sizeof(E), kBlock * sizeof(E)};
  }
  /// (key, query) for the keys of group g, queries from `first` on.
  [[nodiscard]] Elements<E> by_key(std::int64_t g, std::int64_t first) const {
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(Unit<T>));
    return {units() + g * kGroup * kBlock + first, kBlock * kSize, kPack<E> * kSize};
  }

 private:
  [[nodiscard]] const E* elements() const {
    if constexpr (kCopies) {
      return pairs_.data();
    } else {
      return values_;
    }
  }
  [[nodiscard]] const Unit<T>* units() const {
    if constexpr (kCopies) {
      return rows_.data();
    } else {
      return values_;
    }
  }

  R* values_;
  Scratch<E> pairs_;
  Scratch<Unit<T>> rows_;
};

}  // namespace oxrse::cpu

#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/tensor.h"

namespace oxrse::cpu {

/// Rows further apart are copied first: the libraries count in 32 bits in places.
inline constexpr std::int64_t kWidestRow = 1 << 20;

/// A matrix as stored: rows of `stride` elements. `transposed`: the product reads it with rows and columns swapped.
struct GemmOperand {
  const std::byte* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;

  /// The operand from row `row` and column `column` of op(X) on.
  [[nodiscard]] GemmOperand at(std::int64_t row, std::int64_t column, DType type) const {
    return {data + (transposed ? column * stride + row : row * stride + column) * size_of(type), stride, transposed};
  }
};

/// C = (or +=) op(A) op(B) of a size that suits one core; C is in accumulator_of(type).
struct GemmTile {
  std::int64_t m = 0, n = 0, k = 0;  // m, n >= 1; k may be 0
  DType type = DType::None;          // of A and B
  GemmOperand a;                     // op(A): (m, k)
  GemmOperand b;                     // op(B): (k, n)
  std::byte* c = nullptr;            // (m, n)
  std::int64_t ldc = 0;              // at most kWidestRow
  bool add = false;
};

/// Computes the tile on the calling thread, by oneDNN where it knows the type and is there, else by a BLAS in the accumulator type.
void gemm_tile(const GemmTile& tile);

/// Computes the tile by oneDNN; false when oneDNN is missing or does not know the type on this processor. k >= 1.
bool gemm_tile_onednn(const GemmTile& tile);

}  // namespace oxrse::cpu

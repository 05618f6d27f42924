#pragma once

#include "engine/core/context.h"
#include "engine/core/tensor.h"

namespace oxrse::ops {

/// C = op(A) op(B) + bias + residual, added to what is in C with Write::Add: what matrix products on all devices have in common. No op
/// itself, ops::Linear is made of them.
///
/// A and B are of one floating type; C is of that type or of its accumulator type and rounded once. Rows may be strided. C may be the
/// residual itself, but no other operand. M, N, K may be 0: an empty sum is 0.
struct Gemm {
  Tensor c;       // (M, N)
  ConstTensor a;  // (M, K), or (K, M) when transposed
  ConstTensor b;  // (K, N), or (N, K) when transposed
  bool transpose_a = false;
  bool transpose_b = false;
  ConstTensor bias = {};      // (N) of C's type, optional
  ConstTensor residual = {};  // (M, N) of C's type, optional
  Write to_c = Write::Assign;
};

}  // namespace oxrse::ops

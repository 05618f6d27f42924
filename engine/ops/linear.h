#pragma once

#include "engine/ops/run.h"

namespace oxrse::ops {

/// y[n,o] = sum_i x[n,i] w[o,i] + bias[o] + residual[n,o];  gelu[n,o] = GELU(y[n,o]), see engine/ops/activation.h
struct Linear {
  static constexpr std::string_view name = "linear";
  Tensor y;                   // (N, O), rows may be strided
  ConstTensor x;              // (N, I), rows may be strided
  ConstTensor w;              // (O, I), contiguous
  ConstTensor bias = {};      // (O), optional
  ConstTensor residual = {};  // (N, O), optional
  Tensor gelu = {};           // (N, O), rows may be strided; optional, and then there is no residual

  /// dx = dy w;  dw = sum_n dy[n]^T x[n];  dbias = sum_n dy[n].  Where x is GELU(before), dx is the gradient of before: GELU'(before) * dy
  /// w. Gradients of parameters are in accumulator_of(x). Any of dx, dw, dbias may be absent.
  struct Backward {
    static constexpr std::string_view name = "linear.backward";
    Tensor dx = {};           // (N, I), rows may be strided
    Tensor dw = {};           // (O, I) accumulator type
    Tensor dbias = {};        // (O) accumulator type
    ConstTensor dy;           // (N, O), rows may be strided
    ConstTensor x;            // (N, I)
    ConstTensor w;            // (O, I)
    ConstTensor before = {};  // (N, I), rows may be strided; optional, and then dx is present and assigned
    Write to_dx = Write::Assign;
    Write to_dw = Write::Assign;  // also for dbias
  };
};
Cost check(const Linear& op);
Cost check(const Linear::Backward& op);
std::string shape(const Linear& op);
std::string shape(const Linear::Backward& op);
void launch(Cpu& cpu, const Linear& op);
void launch(Cpu& cpu, const Linear::Backward& op);

}  // namespace oxrse::ops

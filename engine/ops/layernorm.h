#pragma once

#include "engine/ops/run.h"

namespace oxrse::ops {

/// y[n,c] = (x[n,c] - mean[n]) * rstd[n] * w[c] + b[c],  rstd[n] = 1/sqrt(mean_c (x[n,c] - mean[n])^2 + eps)
/// Ba et al., "Layer normalization", 2016. Statistics by two passes, never E[x^2] - E[x]^2.
struct LayerNorm {
  static constexpr std::string_view name = "layernorm";
  Tensor y;            // (N, C)
  Tensor mean;         // (N) accumulator type
  Tensor rstd;         // (N) accumulator type
  ConstTensor x;       // (N, C)
  ConstTensor w;       // (C)
  ConstTensor b = {};  // (C), optional
  double eps = 1e-5;

  /// xhat = (x - mean) * rstd;  dx = rstd * (dy*w - mean_c(dy*w) - xhat * mean_c(dy*w*xhat));
  /// dw = sum_n dy*xhat;  db = sum_n dy
  struct Backward {
    static constexpr std::string_view name = "layernorm.backward";
    Tensor dx;         // (N, C); may be the very tensor the residual's gradient is in, with to_dx = Add
    Tensor dw;         // (C) accumulator type
    Tensor db = {};    // (C) accumulator type, optional
    ConstTensor dy;    // (N, C)
    ConstTensor x;     // (N, C)
    ConstTensor w;     // (C)
    ConstTensor mean;  // (N)
    ConstTensor rstd;  // (N)
    Write to_dx = Write::Assign;
    Write to_dw = Write::Assign;  // also for db
  };
};
Cost check(const LayerNorm& op);
Cost check(const LayerNorm::Backward& op);
std::string shape(const LayerNorm& op);
std::string shape(const LayerNorm::Backward& op);
void launch(Cpu& cpu, const LayerNorm& op);
void launch(Cpu& cpu, const LayerNorm::Backward& op);

}  // namespace oxrse::ops

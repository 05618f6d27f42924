#pragma once

#include "engine/ops/run.h"

namespace oxrse::ops {

/// y[n,c] = x[n,c] * rstd[n] * w[c],  rstd[n] = 1/sqrt(mean_c x[n,c]^2 + eps)
/// Zhang and Sennrich, "Root mean square layer normalization", 2019.
/// Rows may have two dimensions: (N, H, C) normalises every head, with statistics (N, H); then rows may be strided.
struct RmsNorm {
  static constexpr std::string_view name = "rmsnorm";
  Tensor y;       // (N, C) or (N, H, C)
  Tensor rstd;    // (N) or (N, H), accumulator type
  ConstTensor x;  // as y
  ConstTensor w;  // (C)
  double eps = 1e-5;

  /// xhat = x * rstd;  dx = rstd * (dy*w - xhat * mean_c(dy*w*xhat));  dw = sum_n dy*xhat
  struct Backward {
    static constexpr std::string_view name = "rmsnorm.backward";
    Tensor dx;         // as x; may be dy itself
    Tensor dw;         // (C) accumulator type
    ConstTensor dy;    // as x
    ConstTensor x;     // (N, C) or (N, H, C)
    ConstTensor w;     // (C)
    ConstTensor rstd;  // (N) or (N, H)
    Write to_dx = Write::Assign;
    Write to_dw = Write::Assign;
  };
};
Cost check(const RmsNorm& op);
Cost check(const RmsNorm::Backward& op);
std::string shape(const RmsNorm& op);
std::string shape(const RmsNorm::Backward& op);
void launch(Cpu& cpu, const RmsNorm& op);
void launch(Cpu& cpu, const RmsNorm::Backward& op);

}  // namespace oxrse::ops

#pragma once

#include "engine/core/philox.h"
#include "engine/ops/run.h"

namespace oxrse::ops {

/// y[n,c] = residual[n,c] + (keep ? x[n,c] / (1 - p) : 0). Element e = (first_row + n) * C + c is kept where word e mod 4 of draw e / 4 of
/// the random stream is at least p * 2^32. The number depends on the element's place in the global batch only, so the mask is the
/// same on any layout, and backward draws it again. The gradient of x is the same op on the gradient, without the residual.
struct Dropout {
  static constexpr std::string_view name = "dropout";
  Tensor y;                   // (N, C); may be x or residual itself
  ConstTensor x;              // (N, C)
  ConstTensor residual = {};  // (N, C), optional
  double p = 0;
  RandomStream random;
  std::int64_t first_row = 0;
};
Cost check(const Dropout& op);
std::string shape(const Dropout& op);
void launch(Cpu& cpu, const Dropout& op);

}  // namespace oxrse::ops

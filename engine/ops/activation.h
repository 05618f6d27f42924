#pragma once

#include "engine/ops/run.h"

namespace oxrse::ops {

/// y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the tanh form of Hendrycks and Gimpel, "Gaussian error linear units", 2016.
struct Gelu {
  static constexpr std::string_view name = "gelu";
  Tensor y;       // (N, I)
  ConstTensor x;  // (N, I)

  /// dx = dy * (0.5 (1 + u) + 0.5 x (1 - u^2) sqrt(2/pi) (1 + 3 * 0.044715 x^2)),  u the tanh above
  struct Backward {
    static constexpr std::string_view name = "gelu.backward";
    Tensor dx;  // (N, I); may be dy itself
    ConstTensor dy, x;
  };
};

/// y = silu(gate) * up,  silu(z) = z / (1 + exp(-z)). Shazeer, "GLU variants improve transformer", 2020.
struct SwiGlu {
  static constexpr std::string_view name = "swiglu";
  Tensor y;              // (N, I)
  ConstTensor gate, up;  // (N, I), rows may be strided: the halves of one (N, 2 I)

  /// s = 1/(1 + exp(-gate));  dup = dy * gate * s;  dgate = dy * up * s * (1 + gate * (1 - s))
  struct Backward {
    static constexpr std::string_view name = "swiglu.backward";
    Tensor dgate, dup;  // (N, I), rows may be strided; may be gate and up themselves
    ConstTensor dy, gate, up;
  };
};
Cost check(const Gelu& op);
Cost check(const Gelu::Backward& op);
Cost check(const SwiGlu& op);
Cost check(const SwiGlu::Backward& op);
std::string shape(const Gelu& op);
std::string shape(const Gelu::Backward& op);
std::string shape(const SwiGlu& op);
std::string shape(const SwiGlu::Backward& op);
void launch(Cpu& cpu, const Gelu& op);
void launch(Cpu& cpu, const Gelu::Backward& op);
void launch(Cpu& cpu, const SwiGlu& op);
void launch(Cpu& cpu, const SwiGlu::Backward& op);

}  // namespace oxrse::ops

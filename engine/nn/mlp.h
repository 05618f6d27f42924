#pragma once

#include <string>

#include "engine/nn/layers.h"

namespace oxrse::nn {

/// y = x + dropout(down(activation(up(norm(x))))): the second half of a block. With SwiGLU, `up` has 2 I rows: gate, then up.
class MlpLayer {
 public:
  /// What backward needs, besides x.
  struct Saved {
    Norm::Saved norm;
    Tensor normed;     // (N, C)
    Tensor up;         // (N, I) or (N, 2 I)
    Tensor activated;  // (N, I)
  };

  MlpLayer() = default;
  MlpLayer(ParameterStore& store, const std::string& name, const ModelConfig& config);

  /// An absent y skips the down projection: backward only needs what is saved.
  Saved forward(const Pass& pass, Tensor y, ConstTensor x) const;
  /// d enters as the gradient of y and leaves as the gradient of x.
  void backward(const Pass& pass, Tensor d, ConstTensor x, const Saved& saved) const;

 private:
  [[nodiscard]] bool gated() const { return config_.mlp == "swiglu"; }

  ModelConfig config_;
  Norm norm_;
  Linear up_;
  ResidualLinear down_;
};

}  // namespace oxrse::nn

#pragma once

#include <cstdint>
#include <string>

#include "engine/nn/model_config.h"
#include "engine/nn/pass.h"

namespace oxrse::nn {

/// Spread of initial weights: Radford et al., GPT-2, 2019.
inline constexpr double kInitialSpread = 0.02;

/// y = x w^T + bias [+ residual]
class Linear {
 public:
  Linear() = default;
  /// Adds `name`.weight (out, in) and, with `bias`, `name`.bias (out) to the store.
  Linear(ParameterStore& store, const std::string& name, std::int64_t in, std::int64_t out, bool bias, double stddev = kInitialSpread);

  /// `residual` is optional.
  void forward(const Pass& pass, Tensor y, ConstTensor x, ConstTensor residual = {}) const;
  /// Also gelu = GELU(y).
  void forward_gelu(const Pass& pass, Tensor y, Tensor gelu, ConstTensor x) const;
  /// Writes dx (unless absent) and the gradients of weight and bias. Where x = GELU(before), dx is the gradient of before.
  void backward(const Pass& pass, Tensor dx, ConstTensor dy, ConstTensor x, ConstTensor before = {}) const;

 private:
  ParameterId weight_, bias_;
};

/// y = x + dropout(Linear(h)): how the halves of a block return to the residual stream.
class ResidualLinear {
 public:
  ResidualLinear() = default;
  ResidualLinear(ParameterStore& store, const std::string& name, std::int64_t in, const ModelConfig& config);

  void forward(const Pass& pass, Tensor y, ConstTensor h, ConstTensor x) const;
  /// Writes d_h, as Linear does; dy passes to the gradient of x unchanged.
  void backward(const Pass& pass, Tensor d_h, ConstTensor dy, ConstTensor h, ConstTensor before = {}) const;

 private:
  void drop(const Pass& pass, Tensor y, ConstTensor x, ConstTensor residual) const;

  std::string name_;
  Linear linear_;
  double dropout_ = 0;
};

/// LayerNorm or RMSNorm, as the config says.
class Norm {
 public:
  struct Saved {
    Tensor mean;  // absent for RMSNorm
    Tensor rstd;
  };

  Norm() = default;
  Norm(ParameterStore& store, const std::string& name, std::int64_t width, const ModelConfig& config);

  Saved forward(const Pass& pass, Tensor y, ConstTensor x) const;
  /// Adds the gradient of x to dx.
  void backward(const Pass& pass, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;

 private:
  ParameterId weight_, bias_;
  bool rms_ = false;
  double eps_ = 0;
};

}  // namespace oxrse::nn

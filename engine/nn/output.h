#pragma once

#include <cstdint>

#include "engine/nn/layers.h"

namespace oxrse::nn {

/// Final norm, output projection to the vocabulary and cross entropy. Logits exist for a few rows at a time only.
class OutputLayer {
 public:
  OutputLayer() = default;
  /// `embedding` is the output weight of a tied model; otherwise "output.weight" is added.
  OutputLayer(ParameterStore& store, const ModelConfig& config, ParameterId embedding);

  /// Adds the batch's losses (nats, summed over valid targets) into `loss_sum` (1) f64. In training, also writes the gradient of
  /// x into `dx` (absent otherwise).
  void loss(const Pass& pass, Tensor loss_sum, Tensor dx, ConstTensor x) const;

  /// logits (N, V) of x (N, C).
  void logits(const Pass& pass, Tensor logits, ConstTensor x) const;

 private:
  [[nodiscard]] std::int64_t rows_at_once(const Pass& pass) const;

  ModelConfig config_;
  Norm norm_;
  ParameterId weight_;  // (V, C)
};

}  // namespace oxrse::nn

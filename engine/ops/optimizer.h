#pragma once

#include <span>

#include "engine/ops/run.h"

namespace oxrse::ops {

/// sums[i] = sum of squares of tensors[i] in f64 over fixed tiles: not finite exactly when some element is not. One launch for
/// all tensors.
struct SumSquares {
  static constexpr std::string_view name = "sum_squares";
  Tensor sums;                           // (number of tensors) f64
  std::span<const ConstTensor> tensors;  // contiguous
};

/// What an update has to know, computed where the gradients are so that a step needs no read by the host. Columns of `control`.
enum ControlColumn : std::uint8_t { kNorm, kFactor, kApply, kUpdates, kControlColumns };

/// norm = sqrt(sum of sums) * unscale;  factor = unscale * min(1, clip / (norm + 1e-6));  apply = norm is finite ? 1 : 0;
/// updates += apply.  `unscale` is 1 / (valid tokens * loss scale), clip 0 means no clipping.
struct ClipFactor {
  static constexpr std::string_view name = "clip_factor";
  Tensor control;    // (kControlColumns) f64; kUpdates is read and written, the others are written
  ConstTensor sums;  // (P) f64
  double unscale = 1;
  double clip = 0;
};

/// One parameter of a multi-tensor update. All views are flat and of one length.
struct ParameterSlice {
  Tensor weight;         // what is updated: the master copy where there is one
  Tensor compute = {};   // weight in the compute type; absent when that is `weight` itself
  ConstTensor gradient;  // sum over tokens, not yet multiplied with factor
  Tensor first = {};     // Adam: first moment; SGD: momentum, absent without
  Tensor second = {};    // Adam: second moment
  bool decay = false;
};

/// g = factor * gradient;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
/// weight -= lr * weight_decay * weight (where decay);  weight -= lr * (m / (1-beta1^t)) / (sqrt(v / (1-beta2^t)) + eps),  t = updates.
/// Nothing is touched when apply is 0. Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
struct AdamW {
  static constexpr std::string_view name = "adamw";
  std::span<const ParameterSlice> parameters;
  ConstTensor control;  // from ClipFactor
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
};

/// g = factor * gradient + weight_decay * weight (where decay);  buf = momentum * buf + g;  weight -= lr * buf.
/// Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013, without Nesterov's look-ahead.
struct Sgd {
  static constexpr std::string_view name = "sgd";
  std::span<const ParameterSlice> parameters;
  ConstTensor control;
  double lr = 0, momentum = 0, weight_decay = 0;
};
/// y = x rounded to bf16 up or down at random, so that its mean is x: 16 random bits are added to those that do not fit, which are then
/// cut off. NaN stays NaN. The bits of element i after update t are half i mod 8 of draw i / 8 of the stream (seed, t, stream): no two
/// parameters and no two updates share any, and the same weights come out when a run is resumed. Gupta et al., "Deep learning with limited
/// numerical precision", 2015.
struct RoundAtRandom {
  static constexpr std::string_view name = "round_at_random";
  Tensor y;             // bf16, contiguous
  ConstTensor x;        // f32, contiguous, same count
  ConstTensor control;  // from ClipFactor: how many updates there were
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;        // of the parameter
  std::int64_t first_element = 0;  // index of y's first element in the parameter: a multiple of 8
};
Cost check(const SumSquares& op);
Cost check(const ClipFactor& op);
Cost check(const AdamW& op);
Cost check(const Sgd& op);
Cost check(const RoundAtRandom& op);
std::string shape(const SumSquares& op);
std::string shape(const ClipFactor& op);
std::string shape(const AdamW& op);
std::string shape(const Sgd& op);
std::string shape(const RoundAtRandom& op);
void launch(Cpu& cpu, const SumSquares& op);
void launch(Cpu& cpu, const ClipFactor& op);
void launch(Cpu& cpu, const AdamW& op);
void launch(Cpu& cpu, const Sgd& op);
void launch(Cpu& cpu, const RoundAtRandom& op);

}  // namespace oxrse::ops

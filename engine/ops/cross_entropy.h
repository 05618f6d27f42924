#pragma once

#include "engine/ops/run.h"

namespace oxrse::ops {

/// loss[n] = lse[n] - logits[n, target[n]],  lse[n] = log sum_{v < vocab} exp(logits[n,v]);  0 for an ignored target (-1).
/// dlogits[n,v] = scale * (exp(logits[n,v] - lse[n]) - [v == target[n]]), 0 in ignored rows and for v >= vocab.
/// Gradients are of the *sum* of losses: the one division by the number of valid tokens comes at the end of the step.
/// A target outside [0, vocab) other than -1 is an Error on the host.
struct CrossEntropy {
  static constexpr std::string_view name = "cross_entropy";
  Tensor loss;             // (N) accumulator type
  Tensor dlogits = {};     // (N, V), optional; may be logits themselves
  ConstTensor logits;      // (N, V)
  ConstTensor targets;     // (N) i32
  std::int64_t vocab = 0;  // columns from here on are padding
  double scale = 1;        // loss scale
};
inline constexpr std::int32_t kIgnoredTarget = -1;

/// An Error when a target is no token; reads the targets.
void check_data(const CrossEntropy& op);
Cost check(const CrossEntropy& op);
std::string shape(const CrossEntropy& op);
void launch(Cpu& cpu, const CrossEntropy& op);

}  // namespace oxrse::ops

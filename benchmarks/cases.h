#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/operands.h"

namespace oxrse::bench {

/// One op at one shape, in any type.
struct Case {
  std::string variant;  // which part of the op: "dx", "dw"; usually empty
  /// Makes the operands and returns what runs the op once, in the operands' context.
  std::function<std::function<void()>(Operands&)> build;
};

/// The matrix products of a training step: forward, gradient of the input ("dx") and of the weight ("dw"), for GPT-2 124M with 4 samples of
/// 256 tokens, for the 12M model with 8, and square ones.
std::vector<Case> gemm_cases();

/// Every other op of a step at the sizes of GPT-2 124M with 4 samples of 256 tokens; attention also at 256 to 4096 tokens.
std::vector<Case> kernel_cases();

}  // namespace oxrse::bench

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/operands.h"

namespace oxrse::cuda {
struct Ladders;
}

namespace oxrse::bench {

/// One op at one shape, in any type.
struct Case {
  std::string variant;  // which part of the op: "dx", "dw"; or which kernel: "wgmma"; usually empty
  /// Makes the operands and returns what runs the op once, in the operands' context.
  std::function<std::function<void()>(Operands&)> build;
  bool wgmma = false;  // by the kernel for compute capability 9.0, where the device has it; all others are by portable kernels
};

/// y (n, o) = x (n, i) w^T
struct ProductShape {
  std::int64_t n, i, o;
};

/// Samples of so many tokens, for attention.
struct AttentionShape {
  std::int64_t samples, tokens, heads = 12, head_width = 64;
};

/// How large the cases are. As they are: a step of GPT-2 124M with 4 samples of 256 tokens; attention also at 256 to 4096 tokens; products
/// also of the 12M model with 8 samples, and square ones.
struct CaseSizes {
  std::int64_t rows = 1024, width = 768, mlp = 3072, heads = 12, head_width = 64, vocab = 50257;
  std::int64_t logit_rows = 332;                     // at once
  std::int64_t parameters = std::int64_t{16} << 20;  // of an update
  std::vector<AttentionShape> attention = {{4, 256}, {2, 512}, {1, 1024}, {1, 2048}, {1, 4096}};
  AttentionShape ladder = {4, 1024};  // of the kernels that lead to attention's
  std::vector<ProductShape> products = {{1024, 768, 2304}, {1024, 768, 768},  {1024, 768, 3072}, {1024, 3072, 768},
                                        {332, 768, 50257}, {2048, 384, 1152}, {2048, 384, 384},  {2048, 384, 1536},
                                        {2048, 1536, 384}, {2048, 384, 4096}, {512, 512, 512},   {2048, 2048, 2048}};

  /// For an emulated GPU, which is a thousand times slower: rows as long as those, few of them.
  static CaseSizes few();
  /// For a GPU, which would mostly wait at the CPU's sizes: a step of GPT-2 124M with 16 samples of 1024 tokens; attention also at 4096 and
  /// 8192 tokens and heads of 128; products up to 8192^3.
  static CaseSizes many();
};

/// The matrix products of a training step: forward, gradient of the input ("dx") and of the weight ("dw").
std::vector<Case> gemm_cases(const CaseSizes& sizes = {});

/// Every other op of a step.
std::vector<Case> kernel_cases(const CaseSizes& sizes = {});

/// The kernels that lead from naive ones to the engine's (docs/kernels), as variants of their ops, for a device that has them.
std::vector<Case> ladder_cases(const CaseSizes& sizes, const cuda::Ladders& ladders);

}  // namespace oxrse::bench

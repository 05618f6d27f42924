#pragma once

#include "cuda/device.h"
#include "engine/ops/activation.h"
#include "engine/ops/attention.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/dropout.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"
#include "engine/ops/layernorm.h"
#include "engine/ops/linear.h"
#include "engine/ops/optimizer.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/rope.h"

// The CUDA kernels of every op: formulas and shapes are in the op's header, in engine/ops. They compute in f32, bf16 and fp16; ops of the
// optimizer and element-wise ones in f64 too. Sums have one order: the same bits in every run.
namespace oxrse::ops {

void launch(Cuda& cuda, const Gelu& op);
void launch(Cuda& cuda, const Gelu::Backward& op);
void launch(Cuda& cuda, const SwiGlu& op);
void launch(Cuda& cuda, const SwiGlu::Backward& op);
void launch(Cuda& cuda, const Attention& op);
void launch(Cuda& cuda, const Attention::Backward& op);
void launch(Cuda& cuda, const CrossEntropy& op);
void launch(Cuda& cuda, const Dropout& op);
void launch(Cuda& cuda, const Fill& op);
void launch(Cuda& cuda, const FillNormal& op);
void launch(Cuda& cuda, const Cast& op);
void launch(Cuda& cuda, const Add& op);
void launch(Cuda& cuda, const Sum& op);
void launch(Cuda& cuda, const Embedding& op);
void launch(Cuda& cuda, const Embedding::Backward& op);
void launch(Cuda& cuda, const LayerNorm& op);
void launch(Cuda& cuda, const LayerNorm::Backward& op);
void launch(Cuda& cuda, const Linear& op);
void launch(Cuda& cuda, const Linear::Backward& op);
void launch(Cuda& cuda, const SumSquares& op);
void launch(Cuda& cuda, const ClipFactor& op);
void launch(Cuda& cuda, const AdamW& op);
void launch(Cuda& cuda, const Sgd& op);
void launch(Cuda& cuda, const RoundAtRandom& op);
void launch(Cuda& cuda, const RmsNorm& op);
void launch(Cuda& cuda, const RmsNorm::Backward& op);
void launch(Cuda& cuda, const RopeTable& op);
void launch(Cuda& cuda, const Rope& op);

}  // namespace oxrse::ops

#pragma once

#include "cuda/device.h"
#include "cuda/portable.h"
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
namespace oxrse::OXRSE_GPU {

void launch(Cuda& cuda, const ops::Gelu& op);
void launch(Cuda& cuda, const ops::Gelu::Backward& op);
void launch(Cuda& cuda, const ops::SwiGlu& op);
void launch(Cuda& cuda, const ops::SwiGlu::Backward& op);
void launch(Cuda& cuda, const ops::Attention& op);
void launch(Cuda& cuda, const ops::Attention::Backward& op);
void launch(Cuda& cuda, const ops::CrossEntropy& op);
void launch(Cuda& cuda, const ops::Dropout& op);
void launch(Cuda& cuda, const ops::Fill& op);
void launch(Cuda& cuda, const ops::FillNormal& op);
void launch(Cuda& cuda, const ops::Cast& op);
void launch(Cuda& cuda, const ops::Add& op);
void launch(Cuda& cuda, const ops::Sum& op);
void launch(Cuda& cuda, const ops::Embedding& op);
void launch(Cuda& cuda, const ops::Embedding::Backward& op);
void launch(Cuda& cuda, const ops::LayerNorm& op);
void launch(Cuda& cuda, const ops::LayerNorm::Backward& op);
void launch(Cuda& cuda, const ops::Linear& op);
void launch(Cuda& cuda, const ops::Linear::Backward& op);
void launch(Cuda& cuda, const ops::SumSquares& op);
void launch(Cuda& cuda, const ops::ClipFactor& op);
void launch(Cuda& cuda, const ops::AdamW& op);
void launch(Cuda& cuda, const ops::Sgd& op);
void launch(Cuda& cuda, const ops::RoundAtRandom& op);
void launch(Cuda& cuda, const ops::RmsNorm& op);
void launch(Cuda& cuda, const ops::RmsNorm::Backward& op);
void launch(Cuda& cuda, const ops::RopeTable& op);
void launch(Cuda& cuda, const ops::Rope& op);

/// Attention's forward pass by wgmma and TMA, for compute capability 9.0; false, and nothing is launched, where it is not for this op.
bool launch_attention_wgmma(Cuda& cuda, const ops::Attention& op);

/// A product of any sizes, strides and alignment without a library: for what cuBLASLt has no algorithm for.
void multiply(Cuda& cuda, const Product& product);

}  // namespace oxrse::OXRSE_GPU

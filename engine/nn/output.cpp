#include "engine/nn/output.h"

#include <algorithm>

#include "engine/ops/cross_entropy.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/linear.h"

namespace oxrse::nn {

OutputLayer::OutputLayer(ParameterStore& store, const ModelConfig& config, ParameterId embedding)
    : config_(config), norm_(store, "norm", config.width, config), weight_(embedding) {
  if (!config.tied_embeddings) weight_ = store.add("output.weight", {config.vocab, config.width}, {.stddev = kInitialSpread});
}

std::int64_t OutputLayer::rows_at_once(const Pass& pass) const {
  // Every piece reads and writes the whole gradient of the weight, so pieces are few (512 rows of 50257 logits in bf16 instead of 333 make
  // the output layer 15% faster on two cores); and of nearly one size, for a small rest costs as much as a large piece.
  constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
  constexpr std::int64_t kFewestRows = 64;
  const std::int64_t rows = kMostBytes / (config_.vocab * size_of(pass.parameters.compute_type()));
  const std::int64_t most = std::clamp(rows, std::min(kFewestRows, pass.batch.count()), pass.batch.count());
  const std::int64_t pieces = (pass.batch.count() + most - 1) / most;
  return (pass.batch.count() + pieces - 1) / pieces;
}

void OutputLayer::loss(const Pass& pass, Tensor loss_sum, Tensor dx, ConstTensor x) const {
  const std::int64_t N = pass.batch.count(), C = config_.width, V = config_.vocab, R = rows_at_once(pass);
  const ArenaScope scope(*pass.context.arena);
  const Tensor normed = pass.make({N, C}, Memory::Workspace);
  const Norm::Saved saved = norm_.forward(pass, normed, x);
  const Tensor losses = pass.make_statistics({N}, Memory::Workspace);
  const Tensor logits = pass.make({R, (V + 63) / 64 * 64}, Memory::Workspace).slice(1, 0, V);
  const Tensor d_normed = pass.training() ? pass.make({N, C}, Memory::Workspace) : Tensor();
  const ConstTensor w = pass.gather(weight_);
  for (std::int64_t begin = 0; begin < N; begin += R) {
    const std::int64_t end = std::min(begin + R, N);
    const Tensor chunk = logits.slice(0, 0, end - begin);
    const ConstTensor rows = normed.slice(0, begin, end);
    ops::run(pass.context, ops::Linear{.y = chunk, .x = rows, .w = w, .bias = {}, .residual = {}});
    ops::run(pass.context, ops::CrossEntropy{.loss = losses.slice(0, begin, end),
                                             .dlogits = pass.training() ? chunk : Tensor(),
                                             .logits = chunk,
                                             .targets = pass.batch.targets.slice(0, begin, end),
                                             .vocab = V,
                                             .scale = pass.loss_scale});
    if (!pass.training()) continue;
    const auto dw = pass.gradients->target(weight_);
    ops::run(pass.context, ops::Linear::Backward{.dx = d_normed.slice(0, begin, end),
                                                 .dw = dw.sum,
                                                 .dbias = {},
                                                 .dy = chunk,
                                                 .x = rows,
                                                 .w = w,
                                                 .to_dx = Write::Assign,
                                                 .to_dw = dw.write});
  }
  ops::run(pass.context, ops::Sum{.sum = loss_sum, .x = losses, .to_sum = Write::Add});
  if (!pass.training()) return;
  ops::run(pass.context, ops::Fill{.y = dx, .value = 0});
  norm_.backward(pass, dx, d_normed, x, saved);
}

void OutputLayer::logits(const Pass& pass, Tensor logits, ConstTensor x) const {
  const ArenaScope scope(*pass.context.arena);
  const Tensor normed = pass.make({x.size(0), x.size(1)}, Memory::Workspace);
  norm_.forward(pass, normed, x);
  ops::run(pass.context, ops::Linear{.y = logits, .x = normed, .w = pass.gather(weight_), .bias = {}, .residual = {}});
}

}  // namespace oxrse::nn

#include "engine/nn/mlp.h"

#include "engine/ops/activation.h"

namespace oxrse::nn {

MlpLayer::MlpLayer(ParameterStore& store, const std::string& name, const ModelConfig& config) : config_(config) {
  const std::int64_t C = config.width, I = config.mlp_width;
  norm_ = Norm(store, name + ".norm2", C, config);
  up_ = Linear(store, name + ".mlp.up", C, gated() ? 2 * I : I, config.bias);
  down_ = ResidualLinear(store, name + ".mlp.down", I, config);
}

MlpLayer::Saved MlpLayer::forward(const Pass& pass, Tensor y, ConstTensor x) const {
  const std::int64_t N = pass.batch.count(), C = config_.width, I = config_.mlp_width;
  Saved saved;
  saved.normed = pass.make({N, C});
  saved.norm = norm_.forward(pass, saved.normed, x);
  saved.up = pass.make({N, gated() ? 2 * I : I});
  saved.activated = pass.make({N, I});
  if (gated()) {
    up_.forward(pass, saved.up, saved.normed);
    ops::run(pass.context, ops::SwiGlu{.y = saved.activated, .gate = saved.up.slice(1, 0, I), .up = saved.up.slice(1, I, 2 * I)});
  } else {
    up_.forward_gelu(pass, saved.up, saved.activated, saved.normed);
  }
  if (y.present()) down_.forward(pass, y, saved.activated, x);
  return saved;
}

void MlpLayer::backward(const Pass& pass, Tensor d, ConstTensor x, const Saved& saved) const {
  const std::int64_t N = pass.batch.count(), C = config_.width, I = config_.mlp_width;
  const ArenaScope scope(*pass.context.arena);
  const Tensor d_up = pass.make({N, gated() ? 2 * I : I}, Memory::Workspace);
  if (gated()) {
    const Tensor d_activated = pass.make({N, I}, Memory::Workspace);
    down_.backward(pass, d_activated, d, saved.activated);
    ops::run(pass.context, ops::SwiGlu::Backward{.dgate = d_up.slice(1, 0, I),
                                                 .dup = d_up.slice(1, I, 2 * I),
                                                 .dy = d_activated,
                                                 .gate = saved.up.slice(1, 0, I),
                                                 .up = saved.up.slice(1, I, 2 * I)});
  } else {
    down_.backward(pass, d_up, d, saved.activated, saved.up);
  }
  const Tensor d_normed = pass.make({N, C}, Memory::Workspace);
  up_.backward(pass, d_normed, d_up, saved.normed);
  norm_.backward(pass, d, d_normed, x, saved.norm);
}

}  // namespace oxrse::nn

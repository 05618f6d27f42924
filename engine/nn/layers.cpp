#include "engine/nn/layers.h"

#include <cmath>

#include "engine/ops/dropout.h"
#include "engine/ops/layernorm.h"
#include "engine/ops/linear.h"
#include "engine/ops/rmsnorm.h"

namespace oxrse::nn {

Linear::Linear(ParameterStore& store, const std::string& name, std::int64_t in, std::int64_t out, bool bias, double stddev)
    : weight_(store.add(name + ".weight", {out, in}, {.stddev = stddev})) {
  if (bias) bias_ = store.add(name + ".bias", {out}, {});
}

void Linear::forward(const Pass& pass, Tensor y, ConstTensor x, ConstTensor residual) const {
  ops::run(pass.context, ops::Linear{.y = y, .x = x, .w = pass.gather(weight_), .bias = pass.gather(bias_), .residual = residual});
}

void Linear::forward_gelu(const Pass& pass, Tensor y, Tensor gelu, ConstTensor x) const {
  ops::run(pass.context, ops::Linear{.y = y, .x = x, .w = pass.gather(weight_), .bias = pass.gather(bias_), .gelu = gelu});
}

void Linear::backward(const Pass& pass, Tensor dx, ConstTensor dy, ConstTensor x, ConstTensor before) const {
  const auto dw = pass.gradients->target(weight_);
  const auto dbias = pass.gradients->target(bias_);
  ops::run(pass.context, ops::Linear::Backward{.dx = dx,
                                               .dw = dw.sum,
                                               .dbias = dbias.sum,
                                               .dy = dy,
                                               .x = x,
                                               .w = pass.gather(weight_),
                                               .before = before,
                                               .to_dx = Write::Assign,
                                               .to_dw = dw.write});
}

// Every layer adds to the residual stream twice, so its outputs start smaller: Radford et al., GPT-2, 2019.
ResidualLinear::ResidualLinear(ParameterStore& store, const std::string& name, std::int64_t in, const ModelConfig& config)
    : name_(name),
      linear_(store, name, in, config.width, config.bias, kInitialSpread / std::sqrt(2.0 * static_cast<double>(config.layers))),
      dropout_(config.dropout) {}

void ResidualLinear::drop(const Pass& pass, Tensor y, ConstTensor x, ConstTensor residual) const {
  ops::run(pass.context, ops::Dropout{.y = y,
                                      .x = x,
                                      .residual = residual,
                                      .p = dropout_,
                                      .random = pass.random(name_),
                                      .first_row = pass.batch.first_row * pass.batch.length});
}

void ResidualLinear::forward(const Pass& pass, Tensor y, ConstTensor h, ConstTensor x) const {
  if (dropout_ == 0 || !pass.training()) {
    linear_.forward(pass, y, h, x);
    return;
  }
  linear_.forward(pass, y, h);
  drop(pass, y, y, x);
}

void ResidualLinear::backward(const Pass& pass, Tensor d_h, ConstTensor dy, ConstTensor h, ConstTensor before) const {
  if (dropout_ == 0) {
    linear_.backward(pass, d_h, dy, h, before);
    return;
  }
  const ArenaScope scope(*pass.context.arena);
  const Tensor dropped = pass.make({dy.size(0), dy.size(1)}, Memory::Workspace);
  drop(pass, dropped, dy, {});
  linear_.backward(pass, d_h, dropped, h, before);
}

Norm::Norm(ParameterStore& store, const std::string& name, std::int64_t width, const ModelConfig& config)
    : weight_(store.add(name + ".weight", {width}, {.mean = 1})), rms_(config.norm == "rmsnorm"), eps_(config.norm_eps) {
  if (!rms_ && config.bias) bias_ = store.add(name + ".bias", {width}, {});
}

Norm::Saved Norm::forward(const Pass& pass, Tensor y, ConstTensor x) const {
  const std::int64_t rows = x.size(0);
  const ConstTensor w = pass.gather(weight_);
  if (rms_) {
    const Saved saved{.mean = {}, .rstd = pass.make_statistics({rows})};
    ops::run(pass.context, ops::RmsNorm{.y = y, .rstd = saved.rstd, .x = x, .w = w, .eps = eps_});
    return saved;
  }
  const Saved saved{.mean = pass.make_statistics({rows}), .rstd = pass.make_statistics({rows})};
  ops::run(pass.context,
           ops::LayerNorm{.y = y, .mean = saved.mean, .rstd = saved.rstd, .x = x, .w = w, .b = pass.gather(bias_), .eps = eps_});
  return saved;
}

void Norm::backward(const Pass& pass, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const {
  const auto dw = pass.gradients->target(weight_);
  const ConstTensor w = pass.gather(weight_);
  if (rms_) {
    ops::run(pass.context,
             ops::RmsNorm::Backward{
                 .dx = dx, .dw = dw.sum, .dy = dy, .x = x, .w = w, .rstd = saved.rstd, .to_dx = Write::Add, .to_dw = dw.write});
    return;
  }
  const auto db = pass.gradients->target(bias_);
  ops::run(pass.context, ops::LayerNorm::Backward{.dx = dx,
                                                  .dw = dw.sum,
                                                  .db = db.sum,
                                                  .dy = dy,
                                                  .x = x,
                                                  .w = w,
                                                  .mean = saved.mean,
                                                  .rstd = saved.rstd,
                                                  .to_dx = Write::Add,
                                                  .to_dw = dw.write});
}

}  // namespace oxrse::nn

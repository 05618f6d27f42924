#include "engine/optim/loss_scaler.h"

#include "engine/core/error.h"

namespace oxrse::optim {

void LossScaler::update(bool finite) {
  if (!active_) return;
  if (finite) {
    if (++state_.good_steps < config_.window) return;
    state_ = {.scale = state_.scale * 2, .good_steps = 0, .hysteresis_left = config_.hysteresis};
    return;
  }
  state_.good_steps = 0;
  if (--state_.hysteresis_left > 0) return;
  require(state_.scale / 2 >= config_.minimum,
          "fp16 gradients overflow even at the smallest loss scale {} (precision.loss_scale.minimum): lower optimizer.lr, or set "
          "precision.compute to \"bf16\" or \"f32\"",
          state_.scale);
  state_.scale /= 2;
  state_.hysteresis_left = config_.hysteresis;
}

}  // namespace oxrse::optim

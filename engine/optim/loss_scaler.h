#pragma once

#include <cstdint>

#include "engine/core/config_field.h"

namespace oxrse::optim {

/// Section "precision.loss_scale": dynamic scaling of the loss in fp16.
struct LossScaleConfig {
  double initial = 65536;
  std::int64_t window = 1000;
  std::int64_t hysteresis = 2;
  double minimum = 1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.initial, Field{.key = "initial", .meaning = "scale at the first step", .min = 0, .above_min = true});
    visit(self.window, Field{.key = "window", .meaning = "good steps after which the scale doubles", .unit = "steps", .min = 1});
    visit(self.hysteresis, Field{.key = "hysteresis", .meaning = "overflows after which the scale halves", .min = 1});
    visit(self.minimum, Field{.key = "minimum", .meaning = "the run ends when the scale would fall below", .min = 0, .above_min = true});
  }
};

/// Keeps fp16 gradients away from underflow: the loss is multiplied by a power-of-two scale that halves after overflows and doubles
/// after a window of good steps. Micikevicius et al., "Mixed precision training", 2018.
class LossScaler {
 public:
  /// What a checkpoint keeps.
  struct State {
    double scale = 1;
    std::int64_t good_steps = 0;       // since the last overflow or doubling
    std::int64_t hysteresis_left = 0;  // overflows until the scale halves
  };

  LossScaler() = default;  // always 1
  explicit LossScaler(const LossScaleConfig& config)
      : config_(config), active_(true), state_{.scale = config.initial, .good_steps = 0, .hysteresis_left = config.hysteresis} {}

  /// Whether an overflow is a matter of scale, to be expected now and then.
  [[nodiscard]] bool active() const { return active_; }
  [[nodiscard]] double scale() const { return state_.scale; }
  /// Learns whether the step's gradient was finite. An Error says that the scale would fall below the minimum.
  void update(bool finite);

  [[nodiscard]] const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  LossScaleConfig config_;
  bool active_ = false;
  State state_;
};

}  // namespace oxrse::optim

#pragma once

#include <cstdint>
#include <string>

#include "engine/core/config_field.h"

namespace oxrse::optim {

/// Section "optimizer" of a config.
struct OptimizerConfig {
  std::string kind = "adamw";
  double lr = 1e-3;
  double min_lr = 1e-4;
  std::int64_t warmup_steps = 50;
  std::string schedule = "cosine";
  double decay_fraction = 0.2;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0.1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.kind, Field{.key = "kind", .meaning = "the update rule; sgd has momentum", .choices = {"adamw", "sgd"}});
    visit(self.lr, Field{.key = "lr", .meaning = "peak learning rate", .min = 0, .max = 3e38});
    visit(self.min_lr,
          Field{.key = "min_lr", .meaning = "learning rate at the end of a decaying schedule, at most lr", .min = 0, .max = 3e38});
    visit(self.warmup_steps, Field{.key = "warmup_steps", .meaning = "steps over which the rate rises to lr", .unit = "steps", .min = 0});
    visit(self.schedule, Field{.key = "schedule",
                               .meaning = "after the warm-up; wsd stays at lr, then decays linearly",
                               .choices = {"cosine", "linear", "constant", "wsd"}});
    visit(self.decay_fraction, Field{.key = "decay_fraction", .meaning = "share of all steps in which wsd decays", .min = 0, .max = 1});
    visit(self.beta1, Field{.key = "beta1", .meaning = "decay of AdamW's first moment", .min = 0, .max = 0.999999});
    visit(self.beta2, Field{.key = "beta2", .meaning = "decay of AdamW's second moment", .min = 0, .max = 0.999999});
    visit(self.eps, Field{.key = "eps", .meaning = "AdamW: added to the root of the second moment", .min = 0, .above_min = true});
    visit(self.momentum, Field{.key = "momentum", .meaning = "SGD: decay of the running sum of gradients", .min = 0, .max = 0.999999});
    visit(self.weight_decay,
          Field{.key = "weight_decay", .meaning = "pull of matrices towards zero, relative to lr", .min = 0, .max = 3e38});
  }

  /// Checks what no single key can say; an Error names the keys.
  void validate() const;
};

/// The learning rate of the update that follows `step` earlier ones, in a run of `steps` updates.
/// Warm-up: lr (s+1)/warmup. Then, with x = (s-warmup)/(steps-warmup): cosine min_lr + (lr-min_lr)/2 (1+cos(pi x)); linear
/// lr + (min_lr-lr) x; constant lr; wsd lr until the last decay_fraction of all steps, then linear to min_lr.
double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t steps);

}  // namespace oxrse::optim

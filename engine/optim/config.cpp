#include "engine/optim/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/core/error.h"

namespace oxrse::optim {

void OptimizerConfig::validate() const {
  require(schedule == "constant" || min_lr <= lr, "optimizer.min_lr {} is above optimizer.lr {}: lower min_lr", min_lr, lr);
}

double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t steps) {
  const auto s = static_cast<double>(step);
  const auto warmup = static_cast<double>(config.warmup_steps);
  if (step < config.warmup_steps) return config.lr * (s + 1) / warmup;
  const double span = static_cast<double>(steps) - warmup;
  const double x = span > 0 ? std::min(1.0, (s - warmup) / span) : 1.0;
  if (config.schedule == "cosine") return config.min_lr + 0.5 * (config.lr - config.min_lr) * (1 + std::cos(std::numbers::pi * x));
  if (config.schedule == "linear") return config.lr + (config.min_lr - config.lr) * x;
  if (config.schedule == "wsd") {
    const double decay = config.decay_fraction * static_cast<double>(steps);
    const double into = s - (static_cast<double>(steps) - decay);
    return into <= 0 ? config.lr : config.lr + (config.min_lr - config.lr) * std::min(1.0, into / decay);
  }
  return config.lr;
}

}  // namespace oxrse::optim

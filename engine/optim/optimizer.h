#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/nn/gradients.h"
#include "engine/nn/parameters.h"
#include "engine/ops/optimizer.h"
#include "engine/optim/config.h"

namespace oxrse::optim {

/// What one update did, read back from the device.
struct UpdateReport {
  double norm = 0;       // of the mean gradient, before clipping; may be NaN or infinite
  bool applied = false;  // false: the norm was not finite and nothing was changed
};

/// Makes every element of a vector the sum of what the ranks have there.
using SumOverRanks = std::function<void(const Tensor&)>;

/// AdamW or SGD with momentum over what a store's rank owns of all parameters, with clipping to a global norm.
class Optimizer {
 public:
  /// The state of what is owned of one parameter, under the names checkpoints use. Absent tensors are not kept by this optimizer.
  struct State {
    Tensor exp_avg, exp_avg_sq, momentum;
  };

  /// Makes room for the state, zeroed. With a seed, the 16-bit copies of the weights are rounded at random.
  void allocate(Context& context, const OptimizerConfig& config, const nn::ParameterStore& store,
                std::optional<std::uint64_t> rounding_seed = std::nullopt);

  /// One update from the gradients' sums, which must be complete where this rank owns the parameter: `unscale` turns them into means,
  /// `clip` bounds the global norm (0: no bound). With ranks that own different elements, `sum_over_ranks` is called once.
  void update(Context& context, const nn::Gradients& gradients, double lr, double unscale, double clip,
              const SumOverRanks& sum_over_ranks = {});
  /// Waits for the update and says what it did.
  [[nodiscard]] UpdateReport report() const;
  /// Names of the parameters whose gradients are not finite, after an update that was not applied.
  [[nodiscard]] std::vector<std::string_view> not_finite() const;

  /// Updates applied so far: Adam's t.
  [[nodiscard]] std::int64_t updates() const;
  void set_updates(std::int64_t updates);
  /// With random rounding: makes the 16-bit copies from the masters as the last update did, after these were loaded or drawn.
  void round_weights(Context& context) const;

  [[nodiscard]] std::span<const State> states() const { return states_; }

 private:
  OptimizerConfig config_;
  const nn::ParameterStore* store_ = nullptr;
  std::optional<std::uint64_t> rounding_seed_;
  std::vector<State> states_;
  /// A segment of a parameter, whose squares are added up by who owns it.
  struct Segment {
    std::size_t parameter = 0;
    nn::Piece elements;
  };
  void list_segments();
  [[nodiscard]] std::vector<ConstTensor> own_segments(std::span<const ConstTensor> sums) const;

  std::vector<ops::ParameterSlice> slices_;  // of the parameters that this rank owns something of
  std::vector<std::size_t> sliced_;          // which they are
  std::vector<Segment> segments_;            // of all parameters
  Tensor sums_;                              // (segments) f64
  Tensor control_;                           // (kControlColumns) f64
};

}  // namespace oxrse::optim

#include "engine/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "engine/core/philox.h"
#include "engine/ops/elementwise.h"

namespace oxrse::optim {
namespace {

template <class View>
View flat(const View& tensor) {
  return tensor.reshape({tensor.count()});
}

}  // namespace

void Optimizer::allocate(Context& context, const OptimizerConfig& config, const nn::ParameterStore& store,
                         std::optional<std::uint64_t> rounding_seed) {
  config_ = config;
  store_ = &store;
  rounding_seed_ = rounding_seed;
  const bool adam = config.kind == "adamw";
  const auto make = [&](const nn::Parameter& p) {
    Tensor t = context.arena->make(p.master.dtype(), p.master.sizes(), Memory::Optimizer);
    ops::run(context, ops::Fill{.y = t, .value = 0});
    return t;
  };
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const nn::Parameter& p = store.parameters()[i];
    State& state = states_.emplace_back();
    if (p.own.count() == 0) continue;
    if (adam) {
      state.exp_avg = make(p);
      state.exp_avg_sq = make(p);
    } else if (config.momentum > 0) {
      state.momentum = make(p);
    }
    ops::ParameterSlice slice{.weight = flat(p.master), .compute = {}, .gradient = {}, .first = {}, .second = {}, .decay = p.decay()};
    if (p.has_master_copy() && !rounding_seed) slice.compute = p.own_part(p.compute);
    if (adam) {
      slice.first = flat(state.exp_avg);
      slice.second = flat(state.exp_avg_sq);
    } else if (state.momentum.present()) {
      slice.first = flat(state.momentum);
    }
    slices_.push_back(slice);
    sliced_.push_back(i);
  }
  list_segments();
  sums_ = context.arena->make(DType::F64, {std::ssize(segments_)}, Memory::Optimizer);
  control_ = context.arena->make(DType::F64, {ops::kControlColumns}, Memory::Optimizer);
  ops::run(context, ops::Fill{.y = control_, .value = 0});
}

void Optimizer::list_segments() {
  for (std::size_t i = 0; i < store_->parameters().size(); ++i) {
    const std::int64_t count = store_->parameters()[i].count(), size = nn::segment_of(count);
    for (std::int64_t begin = 0; begin < count; begin += size) segments_.push_back({i, {begin, std::min(begin + size, count)}});
  }
}

/// The gradients of all segments; those of others without elements, so that their sums are zero.
std::vector<ConstTensor> Optimizer::own_segments(std::span<const ConstTensor> sums) const {
  std::vector<ConstTensor> own;
  own.reserve(segments_.size());
  for (const auto& [parameter, elements] : segments_) {
    const nn::Piece& mine = store_->parameters()[parameter].own;
    const bool owned = mine.begin <= elements.begin && elements.end <= mine.end;
    own.push_back(flat(sums[parameter]).slice(0, elements.begin, owned ? elements.end : elements.begin));
  }
  return own;
}

void Optimizer::update(Context& context, const nn::Gradients& gradients, double lr, double unscale, double clip,
                       const SumOverRanks& sum_over_ranks) {
  const auto sums = gradients.sums();
  for (std::size_t i = 0; i < slices_.size(); ++i) slices_[i].gradient = store_->parameters()[sliced_[i]].own_part(sums[sliced_[i]]);
  ops::run(context, ops::SumSquares{.sums = sums_, .tensors = own_segments(sums)});
  if (sum_over_ranks) sum_over_ranks(sums_);
  ops::run(context, ops::ClipFactor{.control = control_, .sums = sums_, .unscale = unscale, .clip = clip});
  if (config_.kind == "adamw") {
    ops::run(context, ops::AdamW{.parameters = slices_,
                                 .control = control_,
                                 .lr = lr,
                                 .beta1 = config_.beta1,
                                 .beta2 = config_.beta2,
                                 .eps = config_.eps,
                                 .weight_decay = config_.weight_decay});
  } else {
    ops::run(
        context,
        ops::Sgd{.parameters = slices_, .control = control_, .lr = lr, .momentum = config_.momentum, .weight_decay = config_.weight_decay});
  }
  round_weights(context);
}

void Optimizer::round_weights(Context& context) const {
  if (!rounding_seed_) return;
  for (const nn::Parameter& p : store_->parameters()) {
    if (p.own.count() == 0) continue;
    ops::run(context, ops::RoundAtRandom{.y = p.own_part(p.compute),
                                         .x = flat(p.master),
                                         .control = control_,
                                         .seed = *rounding_seed_,
                                         .stream = stream_of("rounding." + p.name),
                                         .first_element = p.own.begin});
  }
}

UpdateReport Optimizer::report() const {
  const double* control = control_.data<double>();
  return {control[ops::kNorm], control[ops::kApply] != 0};
}

std::vector<std::string_view> Optimizer::not_finite() const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const std::string_view name = store_->parameters()[segments_[i].parameter].name;
    if (!std::isfinite(sums_.data<double>()[i]) && (names.empty() || names.back() != name)) names.push_back(name);
  }
  return names;
}

std::int64_t Optimizer::updates() const { return static_cast<std::int64_t>(control_.data<double>()[ops::kUpdates]); }

void Optimizer::set_updates(std::int64_t updates) { control_.data<double>()[ops::kUpdates] = static_cast<double>(updates); }

}  // namespace oxrse::optim

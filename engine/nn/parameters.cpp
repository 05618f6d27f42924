#include "engine/nn/parameters.h"

#include <algorithm>

#include "engine/ops/elementwise.h"

namespace oxrse::nn {

std::int64_t segment_of(std::int64_t count) {
  constexpr std::int64_t kTile = 16384, kMost = 256;
  const std::int64_t tiles = (count + kTile - 1) / kTile;
  return kTile * std::max<std::int64_t>(1, (tiles + kMost - 1) / kMost);
}

std::int64_t Parameter::count() const {
  std::int64_t n = 1;
  for (const std::int64_t s : sizes) n *= s;
  return n;
}

ParameterId ParameterStore::add(std::string name, std::vector<std::int64_t> sizes, Initializer initializer) {
  parameters_.push_back({std::move(name), std::move(sizes), initializer, {}, {}, {}});
  return {static_cast<int>(parameters_.size()) - 1};
}

std::vector<std::int64_t> ParameterStore::offsets(DType compute) const {
  const std::int64_t unit = Arena::kAlignment / size_of(compute);
  std::vector<std::int64_t> offsets = {0};
  for (const Parameter& p : parameters_) offsets.push_back(offsets.back() + (p.count() + unit - 1) / unit * unit);
  return offsets;
}

void ParameterStore::allocate(Context& context, DType compute, std::span<const Piece> own) {
  compute_ = compute;
  const DType master = accumulator_of(compute);
  const std::vector<std::int64_t> begin = offsets(compute);
  weights_ = context.arena->make(compute, {begin.back()}, Memory::Weights);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = parameters_[i];
    p.compute = Tensor(weights_.slice(0, begin[i], begin[i] + p.count()).address(), compute, p.sizes);
    p.own = own.empty() ? Piece{0, p.count()} : own[i];
    if (master == compute) {
      p.master = p.owns_all() ? p.compute : p.own_part(p.compute);
    } else {
      const std::int64_t flat[] = {p.own.count()};
      p.master = context.arena->make(master, p.owns_all() ? std::span<const std::int64_t>(p.sizes) : flat, Memory::Optimizer);
    }
  }
}

void ParameterStore::initialize(Context& context, std::uint64_t seed) {
  for (const Parameter& p : parameters_) {
    if (p.own.count() == 0) continue;
    const auto& [mean, stddev] = p.initializer;
    if (stddev == 0) {
      ops::run(context, ops::Fill{.y = p.master, .value = mean});
    } else {
      ops::run(context, ops::FillNormal{.y = p.master,
                                        .mean = mean,
                                        .stddev = stddev,
                                        .random = RandomStream(seed, stream_of(p.name)),
                                        .first_element = p.own.begin});
    }
  }
  cast(context);
}

void ParameterStore::cast(Context& context) {
  for (const Parameter& p : parameters_) {
    if (!p.has_master_copy() || p.own.count() == 0) continue;
    ops::run(context, ops::Cast{.y = p.own_part(p.compute), .x = p.master.reshape({p.own.count()})});
  }
}

std::int64_t ParameterStore::count() const {
  std::int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.count();
  return n;
}

}  // namespace oxrse::nn

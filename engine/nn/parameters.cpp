#include "engine/nn/parameters.h"

#include "engine/ops/elementwise.h"

namespace oxrse::nn {

std::int64_t Parameter::count() const {
  std::int64_t n = 1;
  for (const std::int64_t s : sizes) n *= s;
  return n;
}

ParameterId ParameterStore::add(std::string name, std::vector<std::int64_t> sizes, Initializer initializer) {
  parameters_.push_back({std::move(name), std::move(sizes), initializer, {}, {}});
  return {static_cast<int>(parameters_.size()) - 1};
}

void ParameterStore::allocate(Context& context, DType compute) {
  compute_ = compute;
  const DType master = accumulator_of(compute);
  for (Parameter& p : parameters_) p.compute = context.arena->make(compute, p.sizes, Memory::Weights);
  for (Parameter& p : parameters_) p.master = master == compute ? p.compute : context.arena->make(master, p.sizes, Memory::Optimizer);
}

void ParameterStore::initialize(Context& context, std::uint64_t seed) {
  for (const Parameter& p : parameters_) {
    const auto& [mean, stddev] = p.initializer;
    if (stddev == 0) {
      ops::run(context, ops::Fill{.y = p.master, .value = mean});
    } else {
      ops::run(context, ops::FillNormal{.y = p.master, .mean = mean, .stddev = stddev, .random = RandomStream(seed, stream_of(p.name))});
    }
  }
  cast(context);
}

void ParameterStore::cast(Context& context) {
  for (const Parameter& p : parameters_) {
    if (p.has_master_copy()) ops::run(context, ops::Cast{.y = p.compute, .x = p.master});
  }
}

std::int64_t ParameterStore::count() const {
  std::int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.count();
  return n;
}

}  // namespace oxrse::nn

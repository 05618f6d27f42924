#include "engine/nn/gradients.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "engine/ops/elementwise.h"

namespace oxrse::nn {

Gradients::Buffer Gradients::make_buffer(Context& context) const {
  // Every part starts on a cache line; the gaps stay zero, so that whole buffers can be added in one go.
  const DType type = accumulator_of(store_->compute_type());
  const std::int64_t unit = Arena::kAlignment / size_of(type);
  auto padded = [&](const Parameter& p) { return (p.count() + unit - 1) / unit * unit; };
  const auto& parameters = store_->parameters();
  const std::int64_t total = std::accumulate(parameters.begin(), parameters.end(), std::int64_t{0},
                                             [&](std::int64_t n, const Parameter& p) { return n + padded(p); });
  Buffer buffer{context.arena->make(type, {total}, Memory::Gradients), {}};
  std::int64_t offset = 0;
  for (const Parameter& p : parameters) {
    buffer.parts.emplace_back(buffer.flat.slice(0, offset, offset + p.count()).address(), type, p.sizes);
    offset += padded(p);
  }
  ops::run(context, ops::Fill{.y = buffer.flat, .value = 0});
  return buffer;
}

void Gradients::allocate(Context& context, const ParameterStore& store, std::int64_t micro_batches, Order order) {
  store_ = &store;
  order_ = order;
  // While micro-batch m runs, a block waits for every bit set in m.
  int waiting = 0;
  for (std::int64_t m = 0; m < micro_batches; ++m) waiting = std::max(waiting, std::popcount(static_cast<std::uint64_t>(m)));
  const int count = order == Order::Pairwise ? waiting + 1 : 1;
  for (int i = 0; i < count; ++i) buffers_.push_back(make_buffer(context));
  levels_.assign(std::bit_width(static_cast<std::uint64_t>(micro_batches)) + 1, -1);
  written_.assign(store.parameters().size(), false);
  begin_step();
}

void Gradients::begin_step() {
  free_.resize(buffers_.size());
  std::iota(free_.rbegin(), free_.rend(), 0);
  std::fill(levels_.begin(), levels_.end(), -1);
  std::fill(written_.begin(), written_.end(), false);
  current_ = free_.back();
  free_.pop_back();
  finished_ = 0;
}

Gradients::Target Gradients::target(ParameterId id) {
  if (!id.present()) return {};
  const Write write = written_[id.index] ? Write::Add : Write::Assign;
  written_[id.index] = true;
  return {buffers_[current_].parts[id.index], write};
}

void Gradients::end_micro_batch(Context& context) {
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const bool planned_before = context.planning() && finished_ > 0;
    require(written_[i] || planned_before, "parameter {} received no gradient", store_->parameters()[i].name);
  }
  ++finished_;
  if (order_ == Order::Sequential) return;
  std::size_t level = 0;
  for (; levels_[level] >= 0; ++level) {  // carry, as when adding 1 to a binary number
    const int earlier = std::exchange(levels_[level], -1);
    ops::run(context, ops::Add{.y = buffers_[current_].flat, .a = buffers_[earlier].flat, .b = buffers_[current_].flat});
    free_.push_back(earlier);
  }
  levels_[level] = current_;
  current_ = -1;
  if (!free_.empty()) {
    current_ = free_.back();
    free_.pop_back();
  }
  std::fill(written_.begin(), written_.end(), false);
}

void Gradients::end_step(Context& context) {
  require(finished_ > 0, "a step of no micro-batches has no gradient");
  int sum = order_ == Order::Sequential ? current_ : -1;
  for (const int block : levels_) {  // what is left of a number of micro-batches that is no power of two: small blocks first
    if (block < 0) continue;
    if (sum >= 0) ops::run(context, ops::Add{.y = buffers_[block].flat, .a = buffers_[block].flat, .b = buffers_[sum].flat});
    sum = block;
  }
  sums_.assign(buffers_[sum].parts.begin(), buffers_[sum].parts.end());
}

}  // namespace oxrse::nn

#include "engine/nn/gradients.h"

#include <algorithm>
#include <numeric>

#include "engine/ops/elementwise.h"

namespace oxrse::nn {

namespace {

/// Whether `b` is the right neighbour of `a` in the pairwise tree, of the same size.
bool are_siblings(const GradientBlock& a, const GradientBlock& b) {
  const std::int64_t size = b.end - b.begin;
  return a.end - a.begin == size && a.begin % (2 * size) == 0;
}

}  // namespace

Gradients::Buffer Gradients::make_buffer(Context& context) {
  // The gaps between parts stay zero, so that whole buffers can be added in one go.
  const DType type = accumulator_of(store_->compute_type());
  Buffer buffer{context.arena->make(type, {offsets_.back()}, Memory::Gradients), {}};
  for (std::size_t i = 0; i < store_->parameters().size(); ++i) {
    const Parameter& p = store_->parameters()[i];
    buffer.parts.emplace_back(buffer.flat.slice(0, offsets_[i], offsets_[i] + p.count()).address(), type, p.sizes);
  }
  ops::run(context, ops::Fill{.y = buffer.flat, .value = 0});
  return buffer;
}

std::vector<GradientBlock> Gradients::blocks_of(const MicroBatches& micro_batches, Order order) {
  const std::int64_t first = micro_batches.first, end = first + micro_batches.count;
  if (order == Order::Sequential) return {{first, end, -1}};
  std::vector<GradientBlock> blocks;
  for (std::int64_t m = first; m < end; ++m) {
    blocks.push_back({m, m + 1, -1});
    while (blocks.size() > 1 && are_siblings(blocks[blocks.size() - 2], blocks.back())) {
      blocks[blocks.size() - 2].end = blocks.back().end;
      blocks.pop_back();
    }
  }
  return blocks;
}

void Gradients::allocate(Context& context, const ParameterStore& store, const MicroBatches& micro_batches, Order order) {
  store_ = &store;
  offsets_ = store.offsets(store.compute_type());
  order_ = order;
  micro_batches_ = micro_batches;
  // While a micro-batch runs, all blocks of those before it wait.
  std::size_t waiting = 0;
  for (MicroBatches before = micro_batches; order == Order::Pairwise && --before.count > 0;) {
    waiting = std::max(waiting, blocks_of(before, order).size());
  }
  for (std::size_t i = 0; i <= waiting; ++i) buffers_.push_back(make_buffer(context));
  written_.assign(store.parameters().size(), false);
  begin_step();
}

void Gradients::begin_step() {
  free_.resize(buffers_.size());
  std::iota(free_.rbegin(), free_.rend(), 0);
  blocks_.clear();
  std::fill(written_.begin(), written_.end(), false);
  current_ = free_.back();
  free_.pop_back();
  finished_ = 0;
  complete_ = offsets_.back();
}

Gradients::Target Gradients::target(ParameterId id) {
  if (!id.present()) return {};
  const Write write = written_[id.index] ? Write::Add : Write::Assign;
  written_[id.index] = true;
  return {buffers_[current_].parts[id.index], write};
}

/// How many of the waiting blocks, from the last on, the running micro-batch completes to larger ones, as when adding 1 to a binary number.
std::size_t Gradients::siblings() const {
  if (order_ == Order::Sequential) return 0;
  const std::int64_t m = micro_batches_.first + finished_;
  GradientBlock sum{m, m + 1, current_};
  std::size_t n = 0;
  for (; n < blocks_.size() && are_siblings(blocks_[blocks_.size() - 1 - n], sum); ++n) sum.begin = blocks_[blocks_.size() - 1 - n].begin;
  return n;
}

/// Adds the siblings to elements [begin, end) of the running micro-batch, smallest first.
void Gradients::add_siblings(Context& context, std::int64_t begin, std::int64_t end) {
  const Tensor sum = buffers_[current_].flat.slice(0, begin, end);
  for (std::size_t n = siblings(), i = 0; i < n && begin < end; ++i) {
    const GradientBlock& earlier = blocks_[blocks_.size() - 1 - i];
    ops::run(context, ops::Add{.y = sum, .a = buffers_[earlier.buffer].flat.slice(0, begin, end), .b = sum});
  }
}

void Gradients::complete_from(Context& context, std::size_t first) {
  if (!ready_ || finished_ + 1 < micro_batches_.count) return;
  add_siblings(context, offsets_[first], complete_);
  complete_ = offsets_[first];
  ready_(complete_);
}

void Gradients::end_micro_batch(Context& context) {
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const bool planned_before = context.planning() && finished_ > 0;
    require(written_[i] || planned_before, "parameter {} received no gradient", store_->parameters()[i].name);
  }
  complete_from(context, 0);
  add_siblings(context, 0, complete_);
  complete_ = offsets_.back();
  const std::size_t joined = siblings();
  const std::int64_t m = micro_batches_.first + finished_++;
  if (order_ == Order::Sequential) {
    blocks_ = {{micro_batches_.first, m + 1, current_}};
    return;
  }
  GradientBlock sum{m, m + 1, current_};
  for (std::size_t i = 0; i < joined; ++i) {
    sum.begin = blocks_.back().begin;
    free_.push_back(blocks_.back().buffer);
    blocks_.pop_back();
  }
  blocks_.push_back(sum);
  current_ = -1;
  if (!free_.empty()) {
    current_ = free_.back();
    free_.pop_back();
  }
  std::fill(written_.begin(), written_.end(), false);
}

std::vector<Tensor> Gradients::block_sums() const {
  std::vector<Tensor> sums;
  const bool runs = finished_ < micro_batches_.count;  // the last one: it has taken in its siblings
  const std::size_t done = order_ == Order::Sequential ? 0 : blocks_.size() - siblings();
  for (std::size_t i = 0; i < (runs ? done : blocks_.size()); ++i) sums.push_back(buffers_[blocks_[i].buffer].flat);
  if (runs) sums.push_back(buffers_[current_].flat);
  return sums;
}

void Gradients::end_step(Context& context) {
  require(finished_ > 0, "a step of no micro-batches has no gradient");
  // What is left of a number of micro-batches that is no power of two: small blocks first.
  for (std::size_t i = blocks_.size(); micro_batches_.all() && --i > 0;) {
    const Tensor &sum = buffers_[blocks_[i - 1].buffer].flat, &rest = buffers_[blocks_[i].buffer].flat;
    ops::run(context, ops::Add{.y = sum, .a = sum, .b = rest});
  }
  const Buffer& sum = buffers_[blocks_.front().buffer];
  sums_.assign(sum.parts.begin(), sum.parts.end());
}

}  // namespace oxrse::nn

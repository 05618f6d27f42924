#include "io/data/prefetch.h"

#include <algorithm>
#include <span>

#include "engine/core/error.h"

namespace oxrse::io {

PrefetchedDataset::PrefetchedDataset(const Dataset& data, std::int64_t context, std::int64_t ahead, ReadOrder order)
    : data_(data), context_(static_cast<std::size_t>(context)), order_(order) {
  require(context > 0 && ahead > 0, "{} samples of {} tokens to read ahead", ahead, context);
  require(order.first >= 0 && order.count > 0 && order.first + order.count <= order.period, "samples {} to {} of every {} to read ahead",
          order.first, order.first + order.count - 1, order.period);
  slots_.resize(static_cast<std::size_t>(ahead));
  for (Slot& slot : slots_) slot.tokens.resize(4 * context_);
  thread_ = std::thread([this] { work(); });
}

PrefetchedDataset::~PrefetchedDataset() {
  {
    const std::lock_guard lock(guard_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Row PrefetchedDataset::row_in(Slot& slot) const {
  const auto part = [&](std::size_t i) { return std::span(slot.tokens).subspan(i * context_, context_); };
  return {.inputs = part(0), .targets = part(1), .positions = part(2), .document_start = part(3)};
}

void PrefetchedDataset::work() {
  std::unique_lock lock(guard_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || ready_ < next_ + static_cast<std::int64_t>(slots_.size()); });
    if (ending_) return;
    const std::int64_t n = order_.sample_at(ready_), jumps = jumps_;
    Slot& slot = slot_of(ready_);
    lock.unlock();
    std::exception_ptr error;
    try {
      data_.read(n, row_in(slot));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (jumps != jumps_) continue;  // nobody wants it any more
    slot.error = error;
    ++ready_;
    changed_.notify_all();
  }
}

void PrefetchedDataset::read(std::int64_t n, const Row& row) const {
  if (!order_.contains(n)) return data_.read(n, row);
  const std::int64_t place = order_.place_of(n);
  std::unique_lock lock(guard_);
  if (place != next_) {
    next_ = place;
    ready_ = place;
    ++jumps_;
    changed_.notify_all();
  }
  const std::int64_t jumps = jumps_;
  changed_.wait(lock, [&] { return jumps != jumps_ || ready_ > place; });
  if (jumps != jumps_) {  // another thread reads somewhere else
    lock.unlock();
    return data_.read(n, row);
  }
  Slot& slot = slot_of(place);
  const Row from = row_in(slot);
  require(row.inputs.size() == context_, "rows of {} tokens for samples of {}", row.inputs.size(), context_);
  const std::exception_ptr error = slot.error;
  if (!error) {
    std::ranges::copy(from.inputs, row.inputs.begin());
    std::ranges::copy(from.targets, row.targets.begin());
    std::ranges::copy(from.positions, row.positions.begin());
    std::ranges::copy(from.document_start, row.document_start.begin());
  }
  next_ = place + 1;
  changed_.notify_all();
  if (error) std::rethrow_exception(error);
}

}  // namespace oxrse::io

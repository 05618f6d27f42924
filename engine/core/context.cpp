#include "engine/core/context.h"

#include <algorithm>
#include <cstring>

namespace oxrse {

OpLog::Entry& OpLog::add(std::string_view name, const std::string& shape, const Cost& cost) {
  auto same = [&](const Entry& e) { return e.name == name && e.shape == shape; };
  // Searched from the back: a step repeats the ops it used last.
  const auto found = std::find_if(entries_.rbegin(), entries_.rend(), same);
  Entry& entry = found != entries_.rend() ? *found : entries_.emplace_back(Entry{name, shape, 0, {}, 0});
  const auto times = static_cast<double>(times_);
  entry.calls += times_;
  entry.cost += {cost.flops * times, cost.bytes * times};
  return entry;
}

void Context::write(const Tensor& to, const void* from) const {
  require(to.contiguous(), "a strided tensor {} cannot be written at once", to.describe());
  const auto bytes = static_cast<std::size_t>(to.bytes());
  if (device != nullptr) {
    device->write(to.address(), {static_cast<const std::byte*>(from), bytes});
  } else if (bytes > 0) {
    std::memcpy(to.address(), from, bytes);
  }
}

Cost OpLog::total() const {
  Cost sum;
  for (const Entry& e : entries_) sum += e.cost;
  return sum;
}

}  // namespace oxrse

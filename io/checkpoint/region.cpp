#include "io/checkpoint/region.h"

#include <fmt/ranges.h>

#include <numeric>

#include "engine/core/error.h"

namespace oxrse::io {
namespace {

std::int64_t product(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// The interval of a tensor's elements that a region lies in.
struct Hull {
  std::int64_t begin, end;
  const Region* region;
};

}  // namespace

Region Region::whole(std::span<const std::int64_t> shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), {shape.begin(), shape.end()}, false};
}

Region Region::range(std::int64_t begin, std::int64_t end) { return {{begin}, {end - begin}, true}; }

std::int64_t Region::count() const { return product(shape); }

std::string Region::describe() const {
  if (flat)
    return fmt::format("elements {} to {}", offset[0], static_cast<std::uint64_t>(offset[0]) + static_cast<std::uint64_t>(shape[0]));
  return fmt::format("({}) at ({})", fmt::join(shape, ", "), fmt::join(offset, ", "));
}

void check_region(const Region& region, std::span<const std::int64_t> shape) {
  const std::int64_t elements = product(shape);
  const std::span<const std::int64_t> sizes = region.flat ? std::span(&elements, 1) : shape;
  require(region.offset.size() == sizes.size() && region.shape.size() == sizes.size(),
          "a part of {} dimensions of a tensor ({}), which has {}", region.shape.size(), fmt::join(shape, ", "), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    require(region.offset[i] >= 0 && region.shape[i] >= 0 && region.shape[i] <= sizes[i] && region.offset[i] <= sizes[i] - region.shape[i],
            "{} is no part of a tensor ({})", region.describe(), fmt::join(shape, ", "));
  }
}

Runs::Runs(const Region& region, std::span<const std::int64_t> shape) {
  if (region.flat) {
    first_ = region.offset[0];
    length_ = region.shape[0];
    count_ = length_ > 0 ? 1 : 0;
    return;
  }
  std::size_t outer = shape.size();  // dimensions outside a run; inside, all but the outermost are covered whole
  std::int64_t stride = 1;
  for (bool whole = true; whole && outer > 0;) {
    --outer;
    length_ *= region.shape[outer];
    first_ += region.offset[outer] * stride;
    stride *= shape[outer];
    whole = region.shape[outer] == shape[outer];
  }
  sizes_.assign(region.shape.begin(), region.shape.begin() + static_cast<std::ptrdiff_t>(outer));
  strides_.resize(outer);
  for (std::size_t i = outer; i-- > 0;) {
    strides_[i] = stride;
    first_ += region.offset[i] * stride;
    stride *= shape[i];
  }
  count_ = length_ > 0 ? product(sizes_) : 0;
}

std::int64_t Runs::begin(std::int64_t i) const {
  std::int64_t place = first_;
  for (std::size_t d = sizes_.size(); d-- > 0;) {
    place += i % sizes_[d] * strides_[d];
    i /= sizes_[d];
  }
  return place;
}

std::int64_t Runs::first_ending_after(std::int64_t element) const {
  std::int64_t low = 0, high = count_;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (end(middle) > element) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

std::int64_t common_elements(const Runs& a, const Runs& b) {
  std::int64_t elements = 0;
  for_each_common_run(a, b, [&](std::int64_t, std::int64_t, std::int64_t length) { elements += length; });
  return elements;
}

std::string partition_fault(std::span<const Region> regions, std::span<const std::int64_t> shape) {
  std::int64_t elements = 0;
  std::vector<Hull> hulls;
  for (const Region& region : regions) {
    const Runs runs(region, shape);
    if (__builtin_add_overflow(elements, region.count(), &elements)) return "parts overlap";
    if (runs.count() > 0) hulls.push_back({runs.begin(0), runs.end(runs.count() - 1), &region});
  }
  std::sort(hulls.begin(), hulls.end(), [](const Hull& a, const Hull& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < hulls.size(); ++i) {
    for (std::size_t j = i + 1; j < hulls.size() && hulls[j].begin < hulls[i].end; ++j) {
      if (common_elements(Runs(*hulls[i].region, shape), Runs(*hulls[j].region, shape)) == 0) continue;
      return fmt::format("{} and {} overlap", hulls[i].region->describe(), hulls[j].region->describe());
    }
  }
  if (elements == product(shape)) return "";
  return fmt::format("{} of {} elements are missing", product(shape) - elements, product(shape));
}

}  // namespace oxrse::io

#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace oxrse::io {

/// A part of a tensor: a box (what tensor parallelism gives a rank), or a flat range of its elements in row-major order (what ZeRO
/// gives one). It lies in memory and in files contiguous, in row-major order.
struct Region {
  std::vector<std::int64_t> offset;  // of the box in the whole tensor; of a flat range: its first element
  std::vector<std::int64_t> shape;   // of the box; of a flat range: the number of its elements
  bool flat = false;

  static Region whole(std::span<const std::int64_t> shape);
  /// Elements [begin, end).
  static Region range(std::int64_t begin, std::int64_t end);

  /// Number of elements.
  [[nodiscard]] std::int64_t count() const;
  /// "(3, 5) at (0, 5)", "elements 10 to 20"
  [[nodiscard]] std::string describe() const;
  bool operator==(const Region&) const = default;
};

/// What a tensor at hand is of a whole one.
struct Placement {
  std::vector<std::int64_t> shape;  // of the whole tensor
  Region region;
};

/// An Error when `region` does not lie inside a tensor of this shape.
void check_region(const Region& region, std::span<const std::int64_t> shape);

/// The elements of a region as runs that are contiguous in the whole tensor, all of one length, first to last.
class Runs {
 public:
  /// `region` lies inside the tensor of this shape.
  Runs(const Region& region, std::span<const std::int64_t> shape);

  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Elements of each.
  [[nodiscard]] std::int64_t length() const { return length_; }
  /// Where run i begins in the whole tensor, in elements.
  [[nodiscard]] std::int64_t begin(std::int64_t i) const;
  [[nodiscard]] std::int64_t end(std::int64_t i) const { return begin(i) + length_; }
  /// The first run that ends after `element` of the whole tensor; count() when there is none.
  [[nodiscard]] std::int64_t first_ending_after(std::int64_t element) const;

 private:
  std::int64_t count_ = 1, length_ = 1, first_ = 0;
  std::vector<std::int64_t> sizes_, strides_;  // of the dimensions outside a run
};

/// Calls `f(place in a, place in b, elements)` for every run of elements that two regions of one tensor have in common, in order. Places
/// are counted in elements from the beginning of the region.
template <class F>
void for_each_common_run(const Runs& a, const Runs& b, F&& f) {
  if (a.count() == 0 || b.count() == 0) return;
  std::int64_t i = a.first_ending_after(b.begin(0)), j = b.first_ending_after(a.begin(0));
  while (i < a.count() && j < b.count()) {
    const std::int64_t a_begin = a.begin(i), b_begin = b.begin(j);
    const std::int64_t begin = std::max(a_begin, b_begin), end = std::min(a_begin + a.length(), b_begin + b.length());
    if (begin < end) f(i * a.length() + begin - a_begin, j * b.length() + begin - b_begin, end - begin);
    if (a_begin + a.length() == end) ++i;
    if (b_begin + b.length() == end) ++j;
  }
}

/// Elements two regions have in common.
std::int64_t common_elements(const Runs& a, const Runs& b);

/// What is wrong with `regions` as a partition of a tensor of this shape, or nothing: "elements are missing", "(3, 5) at (0, 0) and
/// (2, 5) at (2, 0) overlap".
std::string partition_fault(std::span<const Region> regions, std::span<const std::int64_t> shape);

}  // namespace oxrse::io

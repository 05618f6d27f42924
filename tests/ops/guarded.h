#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/tensor.h"

namespace oxrse::test {

using Sizes = std::vector<std::int64_t>;
using Values = std::vector<double>;

/// A tensor that tells what an op did to it. Every element starts as one certain NaN (-123456789 in i32), so that elements never
/// written show; zones before, after and between the rows hold a pattern, so that writes outside show. The first element is aligned to
/// its own size only. Its memory is that of the device under test, and whoever looks at it waits for the device.
class Guarded {
 public:
  Guarded() = default;  // absent
  /// `gap`: elements left free after every row (last dimension) of a tensor of two or more dimensions. `aligned`: the first element is at a
  /// multiple of 64 bytes after all.
  explicit Guarded(DType type, const Sizes& sizes, std::int64_t gap = 0, bool aligned = false);
  Guarded(Guarded&&) noexcept = default;
  Guarded& operator=(Guarded&&) noexcept = default;
  Guarded(const Guarded&) = delete;  // the view points into the memory
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() = default;

  [[nodiscard]] Tensor view() const { return view_; }
  /// The elements in order, without gaps.
  [[nodiscard]] Values values() const;
  /// Sets the elements, rounded once to the type.
  void set(std::span<const double> values);

  /// Whether nothing was written outside the elements.
  [[nodiscard]] bool intact() const;
  /// Whether every element was written.
  [[nodiscard]] bool written() const;
  /// The elements' bytes, without gaps: for comparing bits.
  [[nodiscard]] std::vector<std::byte> bits() const;

 private:
  /// Calls f(index, address of element).
  template <class F>
  void each(F&& f) const;

  struct Release {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Release> memory_;
  std::size_t bytes_ = 0;
  Tensor view_;
};

/// `value` rounded to `type`, to nearest even.
double rounded(DType type, double value);

}  // namespace oxrse::test

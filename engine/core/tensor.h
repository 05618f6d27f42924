#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/core/dtype.h"

namespace oxrse {

inline constexpr int kMaxRank = 5;
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 56;  // bytes and sums of them stay within 63 bits

/// A view of strided elements in memory that somebody else owns. The innermost stride is 1. A default-constructed view is
/// *absent*: ops use it for optional arguments. Sizes and offsets are 64 bits wide throughout.
///
/// Views made while planning carry addresses with no memory behind them, so presence is a matter of the type, never of the
/// address. `Byte` is `std::byte` for `Tensor` and `const std::byte` for `ConstTensor`.
template <class Byte>
class BasicTensor {
 public:
  BasicTensor() = default;

  /// A contiguous view of the given sizes, outermost first.
  BasicTensor(Byte* address, DType type, std::span<const std::int64_t> sizes)
      : address_(address), type_(type), rank_(static_cast<int>(sizes.size())) {
    require(rank_ <= kMaxRank, "a tensor of {} dimensions: at most {} are supported", sizes.size(), kMaxRank);
    std::int64_t stride = 1;
    bool too_large = false;
    for (int i = rank_ - 1; i >= 0; --i) {
      sizes_[i] = sizes[i];
      strides_[i] = stride;
      too_large |= __builtin_mul_overflow(stride, sizes[i], &stride) || stride > kMostElements;
    }
    require(!too_large, "{}: more elements than memory can have addresses for", describe());
  }
  BasicTensor(Byte* address, DType type, std::initializer_list<std::int64_t> sizes)
      : BasicTensor(address, type, std::span(sizes.begin(), sizes.size())) {}

  /// A Tensor reads as a ConstTensor.
  template <class Other>
  requires std::is_same_v<Byte, const Other> &&(!std::is_same_v<Byte, Other>)
      BasicTensor(const BasicTensor<Other>& other)  // NOLINT(google-explicit-constructor): reading what may be written is always fine
      : address_(other.address()), type_(other.dtype()), rank_(other.rank()), sizes_(other.raw_sizes()), strides_(other.raw_strides()) {}

  [[nodiscard]] bool present() const { return type_ != DType::None; }
  [[nodiscard]] DType dtype() const { return type_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::int64_t size(int dim) const { return sizes_[dim < 0 ? dim + rank_ : dim]; }
  [[nodiscard]] std::int64_t stride(int dim) const { return strides_[dim < 0 ? dim + rank_ : dim]; }
  [[nodiscard]] std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(rank_)}; }
  [[nodiscard]] Byte* address() const { return address_; }
  [[nodiscard]] const std::array<std::int64_t, kMaxRank>& raw_sizes() const { return sizes_; }
  [[nodiscard]] const std::array<std::int64_t, kMaxRank>& raw_strides() const { return strides_; }

  /// Number of elements; 1 for a scalar, 0 when absent.
  [[nodiscard]] std::int64_t count() const {
    if (!present()) return 0;
    std::int64_t n = 1;
    for (const std::int64_t s : sizes()) n *= s;
    return n;
  }
  /// Bytes of the elements (without the gaps of a strided view).
  [[nodiscard]] std::int64_t bytes() const { return count() * size_of(type_); }

  [[nodiscard]] bool contiguous() const {
    std::int64_t expected = 1;
    for (int i = rank_ - 1; i >= 0; --i) {
      if (sizes_[i] != 1 && strides_[i] != expected) return false;
      expected *= sizes_[i];
    }
    return true;
  }

  /// The elements as T; an Error when the view holds another type.
  template <class T>
  [[nodiscard]] auto data() const {
    require(dtype_of<std::remove_const_t<T>> == type_, "a tensor of {} read as {}", name_of(type_),
            name_of(dtype_of<std::remove_const_t<T>>));
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return reinterpret_cast<Element*>(address_);
  }

  /// The same elements under other sizes; the view must be contiguous and the number of elements the same.
  [[nodiscard]] BasicTensor reshape(std::initializer_list<std::int64_t> sizes) const {
    require(contiguous(), "reshape of a strided view {}", describe());
    BasicTensor result(address_, type_, sizes);
    require(result.count() == count(), "reshape of {} to {}", describe(), result.describe());
    return result;
  }

  /// Elements [begin, end) of dimension `dim`.
  [[nodiscard]] BasicTensor slice(int dim, std::int64_t begin, std::int64_t end) const {
    const int d = dim < 0 ? dim + rank_ : dim;
    require(0 <= begin && begin <= end && end <= sizes_[d], "slice [{}, {}) of dimension {} of {}", begin, end, d, describe());
    BasicTensor result = *this;
    result.sizes_[d] = end - begin;
    result.address_ = offset(begin * strides_[d]);
    return result;
  }

  /// Splits dimension `dim` into (size / inner, inner); works on strided views.
  [[nodiscard]] BasicTensor split(int dim, std::int64_t inner) const {
    const int d = dim < 0 ? dim + rank_ : dim;
    require(rank_ < kMaxRank && inner > 0 && sizes_[d] % inner == 0, "split of dimension {} of {} by {}", d, describe(), inner);
    BasicTensor result = *this;
    result.rank_ = rank_ + 1;
    for (int i = rank_; i > d + 1; --i) {
      result.sizes_[i] = sizes_[i - 1];
      result.strides_[i] = strides_[i - 1];
    }
    result.sizes_[d] = sizes_[d] / inner;
    result.strides_[d] = strides_[d] * inner;
    result.sizes_[d + 1] = inner;
    result.strides_[d + 1] = strides_[d];
    return result;
  }

  /// "f32(2, 3, 4)", "absent".
  [[nodiscard]] std::string describe() const {
    if (!present()) return "absent";
    std::string text(name_of(type_));
    text += '(';
    for (int i = 0; i < rank_; ++i) text += (i != 0 ? ", " : "") + std::to_string(sizes_[i]);
    return text + ')';
  }

 private:
  // Through integers, because a planned view has no object behind its address to do pointer arithmetic in.
  [[nodiscard]] Byte* offset(std::int64_t elements) const {
    return reinterpret_cast<Byte*>(reinterpret_cast<std::uintptr_t>(address_) + static_cast<std::uintptr_t>(elements * size_of(type_)));
  }

  Byte* address_ = nullptr;
  DType type_ = DType::None;
  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> sizes_{};
  std::array<std::int64_t, kMaxRank> strides_{};
};

using Tensor = BasicTensor<std::byte>;
using ConstTensor = BasicTensor<const std::byte>;

/// Whether an op overwrites its result or adds to what is there.
enum class Write : std::uint8_t { Assign, Add };

}  // namespace oxrse

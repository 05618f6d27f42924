#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "engine/core/context.h"
#include "engine/core/tensor.h"

namespace oxrse::ops {

/// The checks of an op's arguments. Messages name op, argument, what was expected and what was found:
/// "rmsnorm: w must be bf16(768), got f32(768)".
class Checks {
 public:
  template <class Op>
  explicit Checks(const Op& /*op*/) : op_(Op::name) {}

  /// Throws "<op>: <message>" unless `ok`.
  template <class... Args>
  void that(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    if (!ok) fail("{}: {}", op_, fmt::format(format, std::forward<Args>(args)...));
  }

  /// Present, of a floating type and of `rank` dimensions, named in the message: "x must be floating (N, C), got absent".
  void floating(std::string_view argument, const ConstTensor& t, int rank, std::string_view dims) const;
  /// Of this type with one dimension of any size.
  void vector(std::string_view argument, const ConstTensor& t, DType type, std::string_view dims) const;
  /// Of exactly this type and these sizes.
  void is(std::string_view argument, const ConstTensor& t, DType type, std::initializer_list<std::int64_t> sizes) const {
    is(argument, t, type, std::span(sizes.begin(), sizes.size()));
  }
  void is(std::string_view argument, const ConstTensor& t, DType type, std::span<const std::int64_t> sizes) const;
  /// The same, or absent.
  void is_optional(std::string_view argument, const ConstTensor& t, DType type, std::initializer_list<std::int64_t> sizes) const {
    if (t.present()) is(argument, t, type, sizes);
  }
  /// Of the type and sizes of another argument.
  void is_like(std::string_view argument, const ConstTensor& t, const ConstTensor& other) const {
    is(argument, t, other.dtype(), other.sizes());
  }
  /// Without gaps between rows.
  void contiguous(std::string_view argument, const ConstTensor& t) const;

 private:
  std::string_view op_;
};

/// Bytes of the tensors together: what an op that touches each element once moves.
template <class... Tensors>
double bytes_of(const Tensors&... tensors) {
  return static_cast<double>((std::int64_t{0} + ... + tensors.bytes()));
}

/// Bytes of a result: read as well when it is added to.
inline double bytes_of_result(const ConstTensor& t, Write write) { return bytes_of(t) * (write == Write::Add ? 2 : 1); }

}  // namespace oxrse::ops

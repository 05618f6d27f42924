#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "engine/core/error.h"

namespace oxrse {

/// Element types. `None` marks an absent tensor.
enum class DType : std::uint8_t { None, F64, F32, BF16, F16, I32 };

/// bfloat16: the upper half of a float. Conversion rounds to nearest, ties to even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = u + 0x7fffU + ((u >> 16U) & 1U);
    bits = static_cast<std::uint16_t>((value != value ? 0x7fc00000U : rounded) >> 16U);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }
};

/// IEEE binary16. Conversion rounds to nearest, ties to even; overflow gives infinity; NaN stays NaN.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  explicit f16(float value);
  explicit operator float() const;
};

// Both ways without branches, so that loops over them become vector code.
inline f16::f16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16U) & 0x8000U;
  const std::uint32_t magnitude = u & 0x7fffffffU;
  const std::uint32_t rebased = magnitude - 0x38000000U;
  const std::uint32_t normal = (rebased + 0xfffU + ((rebased >> 13U) & 1U)) >> 13U;  // 65520..65535 round up to infinity
  // Below 2^-14: adding a constant leaves the rounded bits in place.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  const std::uint32_t special = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  bits = static_cast<std::uint16_t>(sign | (magnitude >= 0x47800000U ? special : finite));
}

inline f16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t magnitude = bits & 0x7fffU;
  const float finite = std::bit_cast<float>(magnitude << 13U) * 0x1p112F;  // moves the exponent's bias; exact for subnormals too
  const std::uint32_t special = 0x7f800000U | magnitude << 13U;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00U ? special : std::bit_cast<std::uint32_t>(finite)));
}

template <class T>
inline constexpr DType dtype_of = DType::None;
template <>
inline constexpr DType dtype_of<double> = DType::F64;
template <>
inline constexpr DType dtype_of<float> = DType::F32;
template <>
inline constexpr DType dtype_of<bf16> = DType::BF16;
template <>
inline constexpr DType dtype_of<f16> = DType::F16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::I32;

/// Bytes of one element.
constexpr std::int64_t size_of(DType type) {
  switch (type) {
    case DType::F64: return 8;
    case DType::F32: return 4;
    case DType::I32: return 4;
    case DType::BF16: return 2;
    case DType::F16: return 2;
    case DType::None: return 0;
  }
  return 0;
}

/// "f64", "f32", "bf16", "f16", "i32", "none".
constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::F64: return "f64";
    case DType::F32: return "f32";
    case DType::BF16: return "bf16";
    case DType::F16: return "f16";
    case DType::I32: return "i32";
    case DType::None: return "none";
  }
  return "none";
}

constexpr bool is_floating(DType type) { return type != DType::I32 && type != DType::None; }

/// The type statistics, reductions and accumulators use for values of type T: f64 for f64, f32 for everything else.
template <class T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <class T>
using accumulator_t = typename AccumulatorOf<T>::type;
constexpr DType accumulator_of(DType type) { return type == DType::F64 ? DType::F64 : DType::F32; }

/// A type as a value, so that generic lambdas can name it: `typename decltype(tag)::type`.
template <class T>
struct TypeTag {
  using type = T;
};

/// Calls `f(TypeTag<T>{})` with the C++ type of a floating `type`.
template <class F>
decltype(auto) visit_floating(DType type, F&& f) {
  switch (type) {
    case DType::F64: return f(TypeTag<double>{});
    case DType::F32: return f(TypeTag<float>{});
    case DType::BF16: return f(TypeTag<bf16>{});
    case DType::F16: return f(TypeTag<f16>{});
    case DType::I32:
    case DType::None: break;
  }
  fail("expected a floating type, got {}", name_of(type));
}

}  // namespace oxrse

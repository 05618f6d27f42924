#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "engine/core/dtype.h"

namespace oxrse::cpu {

/// A double as a float that becomes, rounded once more to a type of fewer bits, what rounding the double once would have become: where
/// it lies between two floats, the one with an odd last bit.
inline float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const auto exact = static_cast<double>(nearest);
  const std::uint32_t toward_zero = std::abs(exact) > std::abs(value) ? bits - 1U : bits;
  return exact == value || value != value ? nearest : std::bit_cast<float>(toward_zero | 1U);
}

/// `value` as a To, rounded once to nearest even. Kernels store through this function and not through `bf16(value)`: of a loop that
/// constructs an object of class type, gcc 12 makes no vector code.
template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (sizeof(To) == 2 && std::is_same_v<From, double>) {
    return To(rounded_to_odd(value));
  } else if constexpr (sizeof(To) == 2 || sizeof(From) == 2) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace oxrse::cpu

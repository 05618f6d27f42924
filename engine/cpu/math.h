#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Exponentials that a compiler can vectorise: no branches, no tables, no calls. For double they are those of <cmath>.
// For float: error below 2 units in the last place, infinity and 0 (through the subnormals) at the ends, NaN stays NaN.
namespace oxrse::cpu {

namespace detail {

constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: a float this large has no fraction bits, so adding it rounds to an integer

/// The integer that was rounded by adding kRounder: it stands in the low bits. Anything for NaN.
inline std::int32_t rounded_integer(float sum) {
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(kRounder));
}

/// 2^n for -126 <= n <= 127.
inline float power_of_two(std::int32_t n) { return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23U); }

/// p * 2^n in two steps, because 2^n alone may be beyond a float where the product is not.
inline float scale(float p, std::int32_t n) {
  const std::int32_t half = n >> 1;
  return p * power_of_two(half) * power_of_two(n - half);
}

}  // namespace detail

/// e^x
inline float exp(float x) {
  constexpr float kLog2e = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;  // 9 bits, so that n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440054690583e-4F;
  x = x > 89.0F ? 89.0F : x;
  x = x < -105.0F ? -105.0F : x;
  const float sum = x * kLog2e + detail::kRounder;
  const float n = sum - detail::kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  // Minimax for (e^r - 1 - r) / r^2 on |r| <= ln(2)/2; relative error of e^r 3e-9 before rounding.
  float p = 0.0013814469566568732F;
  p = p * r + 0.0083687799051404F;
  p = p * r + 0.04166839271783829F;
  p = p * r + 0.1666651964187622F;
  p = p * r + 0.4999999403953552F;
  return detail::scale(p * (r * r) + r + 1.0F, detail::rounded_integer(sum));
}
inline double exp(double x) { return std::exp(x); }

/// 2^x
inline float exp2(float x) {
  x = x > 129.0F ? 129.0F : x;
  x = x < -151.0F ? -151.0F : x;
  const float sum = x + detail::kRounder;
  const float r = x - (sum - detail::kRounder);
  // Minimax for (2^r - 1) / r on |r| <= 1/2; relative error of 2^r 2e-9 before rounding.
  float p = 0.00015353258640971035F;
  p = p * r + 0.0013399003073573112F;
  p = p * r + 0.00961843878030777F;
  p = p * r + 0.05550331994891167F;
  p = p * r + 0.24022647738456726F;
  p = p * r + 0.6931471824645996F;
  return detail::scale(p * r + 1.0F, detail::rounded_integer(sum));
}
inline double exp2(double x) { return std::exp2(x); }

/// 1 / (1 + e^-x) = (1 + tanh(x/2)) / 2
template <class A>
A sigmoid(A x) {
  return A(1) / (A(1) + exp(-x));
}

}  // namespace oxrse::cpu

#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

// Exponentials that a compiler can vectorise: no branches, no tables, no calls. For double they are those of <cmath>.
namespace oxrse::cpu {

/// e^x within 1.1 units in the last place for -87.3 <= x <= 88.3; 0 below and infinity above; NaN stays NaN. Nobody here needs the last
/// numbers before infinity or the subnormal ones, and doing without halves the work after the polynomial.
///
/// x = n ln 2 + r with |r| <= ln(2)/2;  e^x = 2^n (1 + r + r^2 p(r)). ln 2 is split into a part short enough for n * part to be exact, and
/// the rest (Cody and Waite, "Software manual for the elementary functions", 1980). p is the minimax polynomial for
/// (e^r - 1 - r) / r^2, by Remez's algorithm: a relative error of e^r of 3e-9 before rounding.
inline float exponential(float value) {
  constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the lowest bits, and nothing of its own in the last nine
  // To [-88, 89], where the power below is 0 (n = -127) or infinity (n = 128). By integers, whose order is that of floats among positive
  // (signed) and the reverse among negative ones (unsigned): of two comparisons of floats gcc 12 makes four.
  const auto from_above = std::min(std::bit_cast<std::int32_t>(value), std::bit_cast<std::int32_t>(89.0F));
  const auto x = std::bit_cast<float>(std::min(std::bit_cast<std::uint32_t>(from_above), std::bit_cast<std::uint32_t>(-88.0F)));
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 0.0013814469566568732F;
  p = p * r + 0.0083687799051404F;
  p = p * r + 0.04166839271783829F;
  p = p * r + 0.1666651964187622F;
  p = p * r + 0.4999999403953552F;
  const std::uint32_t biased_exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
  const float result = (p * (r * r) + r + 1.0F) * std::bit_cast<float>(biased_exponent);
  return value != value ? value : result;
}
inline double exponential(double x) { return std::exp(x); }

/// 1 / (1 + e^-x) = (1 + tanh(x/2)) / 2
template <class A>
A sigmoid(A x) {
  return A(1) / (A(1) + exponential(-x));
}

}  // namespace oxrse::cpu

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Exponentials that a compiler can vectorise: no branches, no tables, no calls. For double they are those of <cmath>.
namespace oxrse::cpu {

/// e^x within 1 unit in the last place; infinity and 0 (through the subnormals) at the ends; NaN stays NaN.
///
/// x = n ln 2 + r with |r| <= ln(2)/2;  e^x = 2^n (1 + r + r^2 p(r)). ln 2 is split into a part short enough for n * part to be exact, and
/// the rest (Cody and Waite, "Software manual for the elementary functions", 1980). p is the minimax polynomial for
/// (e^r - 1 - r) / r^2, by Remez's algorithm: a relative error of e^r of 3e-9 before rounding.
inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the lowest bits
  x = x > 89.0F ? 89.0F : x;           // both ends are past the range of float
  x = x < -105.0F ? -105.0F : x;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 0.0013814469566568732F;
  p = p * r + 0.0083687799051404F;
  p = p * r + 0.04166839271783829F;
  p = p * r + 0.1666651964187622F;
  p = p * r + 0.4999999403953552F;
  const float value = p * (r * r) + r + 1.0F;
  // 2^n in two factors, because n reaches 128 at one end and -151 at the other.
  const auto exponent = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound));
  const std::int32_t half = exponent >> 1;
  const auto power_of_two = [](std::int32_t e) { return std::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23U); };
  return value * power_of_two(half) * power_of_two(exponent - half);
}
inline double exponential(double x) { return std::exp(x); }

/// 1 / (1 + e^-x) = (1 + tanh(x/2)) / 2
template <class A>
A sigmoid(A x) {
  return A(1) / (A(1) + exponential(-x));
}

}  // namespace oxrse::cpu

#include "engine/cpu/math.h"

#include <bit>
#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace oxrse::test {

TEST_CASE("exponential: within a unit in the last place of the exact value") {
  double worst = 0;
  for (std::uint32_t i = 0; i < 2000000; ++i) {
    const float x = -87.3F + 175.6F * static_cast<float>(i) / 2e6F;
    const double exact = std::exp(static_cast<double>(x));
    const auto nearest = static_cast<float>(exact);
    const double unit = static_cast<double>(std::nextafter(nearest, INFINITY)) - static_cast<double>(nearest);
    const double error = std::abs(static_cast<double>(cpu::exponential(x)) - exact) / unit;
    if (!(error <= worst)) worst = error;
  }
  CHECK(worst <= 1.1);
  CHECK(cpu::exponential(0.0F) == 1);
  CHECK(cpu::exponential(-0.0F) == 1);
  CHECK(cpu::exponential(1e-30F) == 1);
}

TEST_CASE("exponential: the ends, NaN of any kind") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {-88.0F, -104.0F, -1e4F, -3e38F, -kInfinity}) CHECK(cpu::exponential(x) == 0);
  for (const float x : {89.0F, 1e4F, 3e38F, kInfinity}) CHECK(cpu::exponential(x) == kInfinity);
  for (const std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7fffffffU, 0x7f800001U, 0x7fc0beefU}) {
    CHECK(std::isnan(cpu::exponential(std::bit_cast<float>(bits))));
    CHECK(std::isnan(cpu::sigmoid(std::bit_cast<float>(bits))));
  }
  CHECK(cpu::sigmoid(kInfinity) == 1);
  CHECK(cpu::sigmoid(-kInfinity) == 0);
  CHECK(cpu::sigmoid(0.0F) == 0.5F);
  CHECK(cpu::exponential(1.0) == std::exp(1.0));
}

}  // namespace oxrse::test

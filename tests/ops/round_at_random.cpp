#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/core/philox.h"
#include "engine/ops/optimizer.h"
#include "tests/catch.h"
#include "tests/ops/device.h"
#include "tests/ops/guarded.h"

using namespace oxrse;

namespace {

/// x rounded after `updates` updates of the parameter `stream`.
std::vector<float> rounded(const std::vector<float>& values, std::uint64_t stream, double updates, int threads = 1) {
  const auto count = static_cast<std::int64_t>(values.size());
  const test::Guarded y(DType::BF16, {count});
  test::Guarded x(DType::F32, {count}), control(DType::F64, {ops::kControlColumns});
  x.set(test::Values(values.begin(), values.end()));
  test::Values numbers(ops::kControlColumns, 0);
  numbers[ops::kUpdates] = updates;
  control.set(numbers);
  Context context = test::context_for(DType::BF16, threads);
  ops::run(context, ops::RoundAtRandom{.y = y.view(), .x = x.view(), .control = control.view(), .seed = 5, .stream = stream});
  const test::Values result = y.values();
  return {result.begin(), result.end()};
}

std::vector<float> normal(std::int64_t count) {
  const RandomStream random(1, 2);
  std::vector<float> x;
  for (std::int64_t i = 0; i < count; ++i) x.push_back(static_cast<float>(random.normal(static_cast<std::uint64_t>(i))));
  return x;
}

}  // namespace

TEST_CASE("rounding at random gives one of the two neighbours") {
  const std::vector<float> x = normal(70001), y = rounded(x, 3, 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto below = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x[i]) & 0xffff0000U);  // towards 0
    const auto above = std::bit_cast<float>((std::bit_cast<std::uint32_t>(x[i]) & 0xffff0000U) + 0x10000U);
    REQUIRE((y[i] == below || y[i] == above));
  }
}

TEST_CASE("rounding at random is right on average") {
  // 1 + f/128 lies a fraction f of the way between two bf16.
  for (const double fraction : {0.01, 0.25, 0.5, 0.9}) {
    constexpr int kCount = 100000;
    const auto value = static_cast<float>(1 + fraction / 128);
    double up = 0;
    for (const float y : rounded(std::vector<float>(kCount, value), 3, 1)) up += y > 1 ? 1 : 0;
    const double deviation = std::sqrt(fraction * (1 - fraction) / kCount);
    CHECK(std::abs(up / kCount - fraction) <= 5 * deviation);
  }
}

TEST_CASE("what bf16 holds exactly stays, and so do infinities and NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> exact = {0.0F, -0.0F, 1.0F, -1.5F, 0x1p127F, infinity, -infinity, 0x1p-133F};
  const std::vector<float> y = rounded(exact, 3, 1);
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(std::bit_cast<std::uint32_t>(y[i]) == std::bit_cast<std::uint32_t>(exact[i]));
  for (const std::uint32_t bits : {0x7fc00000U, 0x7f800001U, 0xffffffffU})
    CHECK(std::isnan(rounded({std::bit_cast<float>(bits)}, 3, 1)[0]));
}

TEST_CASE("the bits are those of update, parameter and element alone") {
  const std::vector<float> x = normal(50021);
  const std::vector<float> y = rounded(x, 3, 1);
  for (const int threads : {2, 3}) CHECK(rounded(x, 3, 1, threads) == y);
  CHECK(rounded(x, 3, 2) != y);
  CHECK(rounded(x, 4, 1) != y);
  // Independent streams agree in about the share of elements where both round to the same side, never in all but a few.
  const std::vector<float> other = rounded(x, 4, 1);
  std::int64_t same = 0;
  for (std::size_t i = 0; i < x.size(); ++i) same += y[i] == other[i] ? 1 : 0;
  CHECK(std::abs(static_cast<double>(same) / 50021 - 2.0 / 3) < 0.02);
}

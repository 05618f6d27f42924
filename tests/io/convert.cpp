#include "io/convert.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/catch.h"

using namespace oxrse;

namespace {

template <class To>
To converted(double value) {
  To result{};
  io::convert(Tensor(reinterpret_cast<std::byte*>(&result), dtype_of<To>, {1}),
              ConstTensor(reinterpret_cast<const std::byte*>(&value), DType::F64, {1}));
  return result;
}

double as_double(bf16 value) { return static_cast<double>(static_cast<float>(value)); }
double as_double(f16 value) { return static_cast<double>(static_cast<float>(value)); }

template <class To>
To from_bits(unsigned bits) {
  To value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// Checks the values between every two neighbours: below the middle, the middle, above it by less than a float can tell.
template <class To>
void check_every_value(unsigned infinity) {
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const double low = as_double(from_bits<To>(bits)), high = as_double(from_bits<To>(bits + 1));
    const double middle = (low + high) / 2;  // exact
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    for (const double sign : {1.0, -1.0}) {
      const unsigned sign_bit = sign < 0 ? 0x8000U : 0;
      const bool right = converted<To>(sign * low).bits == (sign_bit | bits) &&
                         converted<To>(sign * std::nextafter(middle, 0.0)).bits == (sign_bit | bits) &&
                         converted<To>(sign * middle).bits == (sign_bit | even) &&
                         converted<To>(sign * std::nextafter(middle, high)).bits == (sign_bit | (bits + 1));
      CAPTURE(bits, sign);
      if (!right) FAIL("rounded wrongly");
    }
  }
}

}  // namespace

TEST_CASE("f64 becomes bf16 and f16 with one rounding, to nearest even", "[convert]") {
  check_every_value<bf16>(0x7f80);
  check_every_value<f16>(0x7c00);
  // 1 + 2^-8 + 2^-40: above the middle of two bf16, but a float rounds it to the middle and that would go down.
  CHECK(converted<bf16>(1 + 0x1p-8 + 0x1p-40).bits == 0x3f81);
  CHECK(converted<f16>(1 + 0x1p-11 + 0x1p-40).bits == 0x3c01);
}

TEST_CASE("values that are too large, none, or no numbers", "[convert]") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {infinity, 1e39, 1e300, std::numeric_limits<double>::max()}) {
    CHECK(converted<bf16>(value).bits == 0x7f80);
    CHECK(converted<bf16>(-value).bits == 0xff80);
    CHECK(converted<f16>(value).bits == 0x7c00);
    CHECK(converted<f16>(-value).bits == 0xfc00);
  }
  CHECK(converted<f16>(65519.999999999).bits == 0x7bff);
  CHECK(converted<f16>(65520.0).bits == 0x7c00);
  const double largest_bf16 = static_cast<double>(std::bit_cast<float>(0x7f7f0000U));
  CHECK(converted<bf16>(largest_bf16 * (1 + 0x1p-9 - 0x1p-40)).bits == 0x7f7f);
  CHECK(converted<bf16>(0x1.ffp127).bits == 0x7f80);
  for (const double tiny : {1e-300, std::numeric_limits<double>::denorm_min(), 0.0}) {
    CHECK(converted<bf16>(tiny).bits == 0);
    CHECK(converted<bf16>(-tiny).bits == 0x8000);
    CHECK(converted<f16>(-tiny).bits == 0x8000);
  }
  CHECK(std::isnan(as_double(converted<bf16>(std::nan("")))));
  CHECK(std::isnan(as_double(converted<f16>(std::nan("")))));
}

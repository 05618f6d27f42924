#include "engine/core/dtype.h"

#include "tests/catch.h"

using namespace oxrse;

namespace {

/// The value of a binary floating-point pattern, from its definition.
double decode(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>((bits >> mantissa_bits) & ((1U << exponent_bits) - 1));
  const auto mantissa = static_cast<double>(bits & ((1U << mantissa_bits) - 1));
  const double sign = (bits >> 15U) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(1 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}

struct Format {
  int exponent_bits, mantissa_bits;
};
template <class T>
constexpr Format kFormat{};
template <>
constexpr Format kFormat<bf16>{8, 7};
template <>
constexpr Format kFormat<f16>{5, 10};

template <class T>
T of_bits(unsigned bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// Number of patterns that convert wrongly to float or do not come back.
template <class T>
int wrong_patterns() {
  int wrong = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const T value = of_bits<T>(bits);
    const auto as_float = static_cast<float>(value);
    const double truth = decode(bits, kFormat<T>.exponent_bits, kFormat<T>.mantissa_bits);
    const bool same = std::isnan(truth) ? std::isnan(as_float) && std::isnan(static_cast<float>(T(as_float)))
                                        : static_cast<double>(as_float) == truth && std::signbit(as_float) == std::signbit(truth) &&
                                              T(as_float).bits == bits;
    if (!same) ++wrong;
  }
  return wrong;
}

/// Number of neighbouring finite pairs whose middle, or what is just beside it, rounds wrongly.
template <class T>
int wrong_roundings() {
  int wrong = 0;
  const unsigned infinity = ((1U << kFormat<T>.exponent_bits) - 1) << kFormat<T>.mantissa_bits;
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const auto low = static_cast<float>(of_bits<T>(bits));
    const auto high = static_cast<float>(of_bits<T>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact: a float has bits to spare
    const unsigned even = bits + (bits & 1U);
    const float huge = std::numeric_limits<float>::max();
    for (const float sign : {1.0F, -1.0F}) {
      const unsigned top = sign < 0 ? 0x8000U : 0U;
      if (T(sign * middle).bits != (even | top)) ++wrong;
      if (T(sign * std::nextafter(middle, 0.0F)).bits != (bits | top)) ++wrong;
      if (T(sign * std::nextafter(middle, huge)).bits != ((bits + 1) | top)) ++wrong;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("every 16-bit pattern converts to its value and back") {
  CHECK(wrong_patterns<bf16>() == 0);
  CHECK(wrong_patterns<f16>() == 0);
}

TEST_CASE("conversion rounds to nearest, ties to even, everywhere") {
  CHECK(wrong_roundings<bf16>() == 0);
  CHECK(wrong_roundings<f16>() == 0);
}

TEST_CASE("overflow gives infinity, NaN stays NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(f16(65504.0F).bits == 0x7bff);
  CHECK(f16(65519.99F).bits == 0x7bff);
  CHECK(f16(65520.0F).bits == 0x7c00);
  CHECK(f16(65535.0F).bits == 0x7c00);
  CHECK(f16(65536.0F).bits == 0x7c00);
  CHECK(f16(-1e30F).bits == 0xfc00);
  CHECK(f16(infinity).bits == 0x7c00);
  CHECK(f16(1e-30F).bits == 0);
  CHECK(f16(-1e-30F).bits == 0x8000);
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16(-infinity).bits == 0xff80);
  CHECK(bf16(std::numeric_limits<float>::denorm_min()).bits == 0);
  // NaNs whose upper bits alone would read as infinity.
  for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fc00000U, 0x7fffffffU}) {
    const auto nan = std::bit_cast<float>(bits);
    CHECK(std::isnan(static_cast<float>(bf16(nan))));
    CHECK(std::isnan(static_cast<float>(f16(nan))));
  }
}

TEST_CASE("types know their size, name, accumulator and C++ type") {
  CHECK(size_of(DType::F64) == 8);
  CHECK(size_of(DType::BF16) == 2);
  CHECK(size_of(DType::None) == 0);
  CHECK(name_of(DType::F16) == "f16");
  CHECK(accumulator_of(DType::F64) == DType::F64);
  CHECK(accumulator_of(DType::BF16) == DType::F32);
  CHECK_FALSE(is_floating(DType::I32));
  for (const DType type : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    CHECK(visit_floating(type, [](auto tag) { return dtype_of<typename decltype(tag)::type>; }) == type);
    CHECK(visit_floating(type, [](auto tag) { return static_cast<std::int64_t>(sizeof(typename decltype(tag)::type)); }) == size_of(type));
  }
  CHECK_THROWS_WITH(visit_floating(DType::I32, [](auto /*tag*/) {}), "expected a floating type, got i32");
}

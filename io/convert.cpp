#include "io/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace oxrse::io {
namespace {

/// The float next to `value` in the direction of zero, its last bit set unless it is `value`. Rounding that to a type of fewer bits gives
/// what rounding `value` gives; rounding twice to nearest does not. (S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded
/// sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57, 2008.)
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  const bool away = std::abs(static_cast<double>(nearest)) > std::abs(value);
  const float toward_zero = away ? std::nextafter(nearest, 0.0F) : nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(toward_zero) | 1U);
}

/// Rounds once, to nearest even.
template <class To, class From>
To converted(From value) {
  if constexpr (std::is_same_v<From, double> && sizeof(To) == 2) {
    return static_cast<To>(round_to_odd(value));
  } else {
    return static_cast<To>(static_cast<float>(value));  // holds every value of the narrower types
  }
}

}  // namespace

void convert(const Tensor& to, const ConstTensor& from) {
  require(to.contiguous() && from.contiguous() && to.count() == from.count(), "cannot copy {} to {}", from.describe(), to.describe());
  if (to.count() == 0) return;
  if (to.dtype() == from.dtype()) {
    std::memcpy(to.address(), from.address(), static_cast<std::size_t>(from.bytes()));
    return;
  }
  visit_floating(to.dtype(), [&](auto to_tag) {
    visit_floating(from.dtype(), [&](auto from_tag) {
      using To = typename decltype(to_tag)::type;
      using From = typename decltype(from_tag)::type;
      To* out = to.template data<To>();
      const From* in = from.template data<From>();
      for (std::int64_t i = 0; i < from.count(); ++i) out[i] = converted<To>(in[i]);
    });
  });
}

}  // namespace oxrse::io

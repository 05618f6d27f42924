#include "io/finite.h"

#include <cmath>
#include <limits>

namespace oxrse::io {

std::int64_t count_not_finite(const ConstTensor& x) {
  return visit_floating(x.dtype(), [&](auto tag) -> std::int64_t {
    using T = typename decltype(tag)::type;
    using A = accumulator_t<T>;
    const T* const data = x.data<T>();
    std::int64_t count = 0;
#pragma omp simd reduction(+ : count)
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const A size = std::abs(static_cast<A>(data[i]));
      count += size <= std::numeric_limits<A>::max() ? 0 : 1;  // NaN is not below anything
    }
    return count;
  });
}

}  // namespace oxrse::io

#include "io/finite.h"

namespace oxrse::io {

std::int64_t count_not_finite(const ConstTensor& x) {
  return visit_floating(x.dtype(), [&](auto tag) -> std::int64_t {
    using T = typename decltype(tag)::type;
    const T* const data = x.data<T>();
    std::int64_t count = 0;
#pragma omp simd reduction(+ : count)
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const auto value = static_cast<accumulator_t<T>>(data[i]);
      count += value - value == 0 ? 0 : 1;
    }
    return count;
  });
}

}  // namespace oxrse::io

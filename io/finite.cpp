#include "io/finite.h"

#include <algorithm>
#include <cmath>

namespace oxrse::io {

std::int64_t count_not_finite(const ConstTensor& x) {
  return visit_floating(x.dtype(), [&](auto tag) -> std::int64_t {
    using T = typename decltype(tag)::type;
    const T* const data = x.data<T>();
    return std::count_if(data, data + x.count(), [](T value) { return !std::isfinite(static_cast<accumulator_t<T>>(value)); });
  });
}

}  // namespace oxrse::io

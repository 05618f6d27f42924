#include "io/convert.h"

#include <cstring>

namespace oxrse::io {
namespace {

/// Through float, which holds every value of the narrower types.
template <class To, class From>
To converted(From value) {
  return static_cast<To>(static_cast<float>(value));
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

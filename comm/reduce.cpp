#include "comm/reduce.h"

#include <cstring>
#include <type_traits>

#include "engine/core/error.h"

namespace oxrse::comm {
namespace {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, bf16> || std::is_same_v<T, f16>, float, T>;

template <class T>
struct Tagged {
  using type = T;
};

/// Calls body(tag) for the type.
template <class Body>
void visit(DType type, const Body& body) {
  switch (type) {
    case DType::F32: return body(Tagged<float>{});
    case DType::F64: return body(Tagged<double>{});
    case DType::BF16: return body(Tagged<bf16>{});
    case DType::F16: return body(Tagged<f16>{});
    case DType::I32:
    case DType::None: break;
  }
  fail("a collective of {}: expected a floating-point type", name_of(type));
}

/// Calls body(tag) with `type`, which is T or its accumulator.
template <class T, class Body>
void visit_one_of(DType type, const Body& body) {
  if (type == dtype_of<T>) return body(Tagged<T>{});
  require(type == dtype_of<Wide<T>>, "elements of {} and {} in one collective", name_of(type), name_of(dtype_of<T>));
  body(Tagged<Wide<T>>{});
}

/// The narrower of the types, by which a combination is found.
DType narrowest(DType a, DType b) { return size_of(b) < size_of(a) ? b : a; }

}  // namespace

void copy(Elements to, ConstElements from, std::int64_t count) {
  if (to.type == from.type) {
    if (to.data != from.data) std::memmove(to.data, from.data, static_cast<std::size_t>(count * size_of(to.type)));
    return;
  }
  visit(narrowest(to.type, from.type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_one_of<T>(to.type, [&](auto to_tag) {
      visit_one_of<T>(from.type, [&](auto from_tag) {
        using To = typename decltype(to_tag)::type;
        auto* y = reinterpret_cast<To*>(to.data);
        const auto* x = reinterpret_cast<const typename decltype(from_tag)::type*>(from.data);
        for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<To>(static_cast<Wide<T>>(x[i]));
      });
    });
  });
}

void add(Elements to, ConstElements with, ConstElements from, std::int64_t count) {
  visit(narrowest(narrowest(to.type, with.type), from.type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_one_of<T>(to.type, [&](auto to_tag) {
      visit_one_of<T>(with.type, [&](auto with_tag) {
        visit_one_of<T>(from.type, [&](auto from_tag) {
          using To = typename decltype(to_tag)::type;
          auto* y = reinterpret_cast<To*>(to.data);
          const auto* a = reinterpret_cast<const typename decltype(with_tag)::type*>(with.data);
          const auto* b = reinterpret_cast<const typename decltype(from_tag)::type*>(from.data);
          // The operands may be misaligned views, but each is itself or disjoint from y.
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<To>(static_cast<Wide<T>>(a[i]) + static_cast<Wide<T>>(b[i]));
        });
      });
    });
  });
}

}  // namespace oxrse::comm

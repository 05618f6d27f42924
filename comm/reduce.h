#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"

namespace oxrse::comm {

/// Floating-point elements in memory. Sums of 16-bit types are made in f32, see accumulator_of.
struct Elements {
  std::byte* data = nullptr;
  DType type = DType::F32;
};
struct ConstElements {
  const std::byte* data = nullptr;
  DType type = DType::F32;
};

/// to[i] = from[i], i < count, converted by way of the accumulator type.
void copy(Elements to, ConstElements from, std::int64_t count);
/// to[i] = with[i] + from[i], added in the accumulator type and rounded once; `to` may be `with` or `from`.
void add(Elements to, ConstElements with, ConstElements from, std::int64_t count);

}  // namespace oxrse::comm

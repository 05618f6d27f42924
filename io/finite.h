#pragma once

#include <cstdint>

#include "engine/core/tensor.h"

namespace oxrse::io {

/// How many elements of a contiguous tensor of a floating type are NaN or infinite.
std::int64_t count_not_finite(const ConstTensor& x);

}  // namespace oxrse::io

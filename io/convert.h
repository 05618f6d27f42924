#pragma once

#include "engine/core/tensor.h"

namespace oxrse::io {

/// Copies the elements of `from` to `to`, rounding to nearest even where `to` has fewer bits. Both are contiguous, of floating
/// types (or of the same type) and of equal counts; otherwise an Error.
void convert(const Tensor& to, const ConstTensor& from);

}  // namespace oxrse::io

#pragma once

#include "cuda/runtime/api.h"

namespace oxrse::cuda_emulated {

/// What the matrix library would compute, as its documentation has it: column-major, f64 sums in the order of k, rounded once.
void reference_product(const cuda::Multiplication& product, const cuda::Operands& operands);

}  // namespace oxrse::cuda_emulated

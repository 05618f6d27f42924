#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint/checkpoint.h"

namespace oxrse::io {

/// How one tensor differs between two checkpoints.
struct TensorDifference {
  std::string label;           // "blocks.0.norm1.weight (master)"
  std::string structure;       // "only in A", "(3, 5) and (4, 5)": what forbids comparing values; else empty
  std::int64_t count = 0;      // elements
  std::int64_t different = 0;  // elements with other values; NaN equals NaN
  double largest = 0;          // largest absolute difference; NaN when one has a NaN where the other has none
  double relative = 0;         // |a - b| / |a| of the whole tensors, in the 2-norm
};

/// The tensors that differ, in the order of `a`; equal bits are recognised by their checksums. Needs memory for one tensor of each.
std::vector<TensorDifference> compare(const Checkpoint& a, const Checkpoint& b);

}  // namespace oxrse::io

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/tokenizer/pair_map.h"

namespace oxrse::io {

/// What becomes of a pair of neighbouring tokens.
struct Merge {
  std::int32_t rank = 0;     // lower ranks come first
  std::int32_t result = -1;  // the token the pair becomes
};
using MergeTable = PairMap<Merge>;

/// Joins neighbours until no merge applies, always the one of the lowest rank and, among equals, the leftmost: O(n log n) with a heap
/// over a linked list, so a piece of a million bytes is no problem.
void apply_merges(const MergeTable& merges, std::vector<std::int32_t>& tokens);

}  // namespace oxrse::io

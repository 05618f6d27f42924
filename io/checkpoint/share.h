#pragma once

#include <span>
#include <vector>

#include "io/checkpoint/entry.h"

namespace oxrse::io {

/// What writer.rank of the writer.count ranks that all hold `entries` writes of them: the bytes are cut into equal shares, so that tensors
/// at the cuts are written in parts. A whole tensor and a flat range are cut between any two elements, a box between two of its rows, and
/// a tensor that is made while it is written (`fill`) not at all. The shares of all ranks are a partition of the elements.
std::vector<CheckpointEntry> share_of(std::span<const CheckpointEntry> entries, const Writer& writer);

}  // namespace oxrse::io

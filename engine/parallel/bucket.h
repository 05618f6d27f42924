#pragma once

#include <cstdint>
#include <vector>

#include "engine/nn/parameters.h"

namespace oxrse::parallel {

/// Neighbouring parameters whose gradients are summed over ranks at once: elements [begin, end) of a buffer of all parameters. With ZeRO,
/// rank r owns the share [bounds[r], bounds[r+1]) of them, counted from `begin`.
struct Bucket {
  std::int64_t begin = 0, end = 0;
  std::vector<std::int64_t> bounds;

  [[nodiscard]] std::int64_t count() const { return end - begin; }
};

/// The buckets of all parameters in the order in which a backward pass completes them, the last parameters first. A bucket is as many whole
/// parameters as fit `bytes`, at least one; the first has a quarter of that, so that sending begins early. Shares are cut between
/// segments (nn::segment_of), as evenly as these allow.
std::vector<Bucket> make_buckets(const nn::ParameterStore& store, DType compute, std::int64_t bytes, int ranks);

/// What a rank owns of every parameter of the store.
std::vector<nn::Piece> pieces_of(const nn::ParameterStore& store, DType compute, const std::vector<Bucket>& buckets, int rank);

}  // namespace oxrse::parallel

#include "engine/parallel/bucket.h"

#include <algorithm>

namespace oxrse::parallel {
namespace {

/// The first place at or behind `element` where a share may begin.
std::int64_t next_cut(const nn::ParameterStore& store, const std::vector<std::int64_t>& offsets, std::int64_t element) {
  if (element >= offsets.back()) return offsets.back();
  const auto i = static_cast<std::size_t>(std::upper_bound(offsets.begin(), offsets.end(), element) - offsets.begin() - 1);
  const std::int64_t count = store.parameters()[i].count(), segment = nn::segment_of(count);
  const std::int64_t cut = (element - offsets[i] + segment - 1) / segment * segment;
  return cut < count || cut == 0 ? offsets[i] + cut : offsets[i + 1];
}

}  // namespace

std::vector<Bucket> make_buckets(const nn::ParameterStore& store, DType compute, std::int64_t bytes, int ranks) {
  const std::vector<std::int64_t> offsets = store.offsets(compute);
  const std::int64_t size = size_of(accumulator_of(compute));
  std::vector<Bucket> buckets;
  for (std::size_t end = offsets.size() - 1; end > 0;) {
    const std::int64_t most = buckets.empty() ? bytes / 4 : bytes;
    std::size_t begin = end - 1;
    while (begin > 0 && (offsets[end] - offsets[begin - 1]) * size <= most) --begin;
    Bucket bucket{offsets[begin], offsets[end], {}};
    for (int r = 0; r <= ranks; ++r) {
      const std::int64_t even = bucket.count() / ranks * r + bucket.count() % ranks * r / ranks;
      bucket.bounds.push_back(std::min(next_cut(store, offsets, bucket.begin + even), bucket.end) - bucket.begin);
    }
    buckets.push_back(std::move(bucket));
    end = begin;
  }
  return buckets;
}

std::vector<nn::Piece> pieces_of(const nn::ParameterStore& store, DType compute, const std::vector<Bucket>& buckets, int rank) {
  const std::vector<std::int64_t> offsets = store.offsets(compute);
  std::vector<nn::Piece> pieces;
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const std::int64_t first = offsets[i], count = store.parameters()[i].count();
    const auto bucket = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& b) { return b.begin <= first && first < b.end; });
    const auto r = static_cast<std::size_t>(rank);
    const auto within = [&](std::int64_t bound) { return std::clamp<std::int64_t>(bucket->begin + bound - first, 0, count); };
    pieces.push_back({within(bucket->bounds[r]), within(bucket->bounds[r + 1])});
  }
  return pieces;
}

}  // namespace oxrse::parallel

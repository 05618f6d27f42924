#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/core/tensor.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/simd.h"

// Attention works on tiles of kBlock keys x kBlock queries. Scores are kept *key by key* (row: key, column: query), so that the softmax's
// maximum and sum run down the rows, one query a lane, and K and V are read in the order they are stored in.
namespace oxrse::cpu {

inline constexpr std::int64_t kBlock = 64;
inline constexpr std::int64_t kGroup = 8;  // queries or keys that are skipped together when none of their pairs is visible
inline constexpr std::int64_t kGroups = kBlock / kGroup;
static_assert(kGroup % kPanelRows == 0);

/// Queries whose scores of a key are computed together.
template <class R>
inline constexpr std::int64_t kLanes = std::max(kWidth<R>, kGroup);

constexpr std::int64_t padded(std::int64_t size, std::int64_t step) { return divide_up(size, step) * step; }

/// [begin, end)
struct Range {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] bool empty() const { return begin >= end; }
};

/// The rows of one head: row i is at data + i * stride.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;
};
/// Head `h` of batch element `b` of a (B, T, H, D) tensor.
template <class T, class AnyTensor>
HeadRows<T> head_of(const AnyTensor& x, std::int64_t b, std::int64_t h) {
  return {x.template data<std::remove_const_t<T>>() + b * x.stride(0) + h * x.stride(2), x.stride(1)};
}

/// Keys seen by the queries of a block.
struct QueryBlock {
  std::int64_t first = 0, count = 0;  // queries [first, first + count)
  Range seen[kBlock];                 // by each query; nothing by those past the end
  Range any[kGroups];                 // by some query of the group
  Range all[kGroups];                 // by every query of the group
  Range whole;                        // by some query of the block

  /// Op is Attention or its Backward.
  template <class Op>
  QueryBlock(const Op& op, std::int64_t b, std::int64_t first_query) : first(first_query) {
    const std::int64_t t_count = op.q.size(1), s_count = op.k.size(1);
    count = std::min(kBlock, t_count - first);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t position = first + i + s_count - t_count;
      Range& range = seen[i];
      range = {0, std::min(position + 1, s_count)};
      if (op.window > 0) range.begin = std::max(range.begin, position - op.window + 1);
      if (op.document_start.present()) {
        const auto* starts = op.document_start.template data<std::int32_t>() + b * op.document_start.stride(0);
        range.begin = std::max<std::int64_t>(range.begin, starts[first + i]);
      }
      if (range.empty()) range = {};
    }
    for (std::int64_t g = 0; g < kGroups; ++g) summarise(g);
  }

 private:
  void summarise(std::int64_t g) {
    all[g] = {0, std::numeric_limits<std::int64_t>::max()};
    for (std::int64_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      all[g] = {std::max(all[g].begin, seen[i].begin), std::min(all[g].end, seen[i].end)};
      extend(any[g], seen[i]);
    }
    extend(whole, any[g]);
  }
  static void extend(Range& range, const Range& by) {
    if (by.empty()) return;
    range = range.empty() ? by : Range{std::min(range.begin, by.begin), std::max(range.end, by.end)};
  }
};

/// The part of a tile that is computed: every visible pair and what lies in the same groups.
template <class R>
struct TileShape {
  std::int64_t first_key, keys;  // keys [first_key, first_key + keys)
  Range keys_of[kGroups];        // of each group of queries: multiples of kGroup from first_key on
  Range queries_of[kGroups];     // of each group of keys: multiples of kLanes
  bool partly[kGroups] = {};     // whether some pair of a group of keys with its queries is not visible
  bool empty = true;

  TileShape(const QueryBlock& queries, std::int64_t first, std::int64_t key_count)
      : first_key(first), keys(std::min(kBlock, key_count - first)) {
    for (std::int64_t g = 0; g < kGroups; ++g) {
      const std::int64_t begin = std::max(queries.any[g].begin - first_key, std::int64_t{0});
      const std::int64_t end = std::min(queries.any[g].end - first_key, keys);
      if (queries.any[g].empty() || begin >= end) continue;
      empty = false;
      keys_of[g] = {begin / kGroup * kGroup, padded(end, kGroup)};
      const Range lanes{g * kGroup / kLanes<R> * kLanes<R>, padded((g + 1) * kGroup, kLanes<R>)};
      for (std::int64_t k = keys_of[g].begin / kGroup; k < keys_of[g].end / kGroup; ++k) {
        Range& of = queries_of[k];
        of = of.empty() ? lanes : Range{std::min(of.begin, lanes.begin), std::max(of.end, lanes.end)};
      }
    }
    for (std::int64_t k = 0; k < kGroups; ++k) {
      for (std::int64_t g = queries_of[k].begin / kGroup; g < queries_of[k].end / kGroup; ++g) {
        const std::int64_t key = first_key + k * kGroup;
        partly[k] = partly[k] || queries.all[g].begin > key || queries.all[g].end < key + kGroup;
      }
    }
  }
};

/// Calls f(lane) for every lane of the range, whose size is a multiple of kLanes, as vector code.
template <class R, class F>
inline void each_lane(const Range& lanes, const F& f) {
  for (std::int64_t first = lanes.begin; first < lanes.end; first += kLanes<R>) {
#pragma omp simd
    for (std::int64_t lane = first; lane < first + kLanes<R>; ++lane) f(lane);
  }
}

/// out[key, query] = <x[key], y[:, query]> for the keys of group g and some queries; `y` has kBlock columns.
template <class R, class E>
void multiply(const Range& lanes, std::int64_t g, std::int64_t d, const Elements<E>& x, const E* y, R* out) {
  small_product<Write::Assign, R>(kGroup, lanes.end - lanes.begin, divide_up(d, kPack<E>), x.at(g * kGroup), y + lanes.begin, kBlock,
                                  out + g * kGroup * kBlock + lanes.begin, kBlock);
}

/// scores[key, query] = <k, q> for the tile's shape, -inf where the query does not see the key.
template <class R, class E>
void compute_scores(const TileShape<R>& tile, const QueryBlock& queries, std::int64_t d, const Elements<E>& k, const E* q, R* scores) {
  for (std::int64_t g = 0; g < kGroups; ++g) {
    const Range& lanes = tile.queries_of[g];
    if (lanes.empty()) continue;
    multiply(lanes, g, d, k, q, scores);
    if (!tile.partly[g]) continue;
    for (std::int64_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      for (std::int64_t lane = lanes.begin; lane < lanes.end; ++lane) {
        const Range& seen = queries.seen[lane];
        const std::int64_t key = tile.first_key + i;
        if (key < seen.begin || key >= seen.end) scores[i * kBlock + lane] = -std::numeric_limits<R>::infinity();
      }
    }
  }
}

}  // namespace oxrse::cpu

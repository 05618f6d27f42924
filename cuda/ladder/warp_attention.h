#pragma once

#include "cuda/ladder/attention_forward.h"

// The 16 queries of a warp on tensor cores: what rungs 4 and 5 have in common. Who holds which numbers: cuda/mma.h.
namespace oxrse::OXRSE_GPU::ladder {

/// Tiles of which five fit kMostShared.
template <class T, int kD>
struct RungTiles : AttentionTiles<T, kD> {
  using Engine = AttentionTiles<T, kD>;
  static constexpr int kRows = Engine::bytes(5 * Engine::kRows) > kMostShared ? Engine::kRows / 2 : Engine::kRows;
  static constexpr int kThreads = kRows / kMmaRows * kWarp;
  static_assert(Engine::bytes(5 * kRows) <= kMostShared);
};

template <class T, int kD>
class WarpAttention {
 public:
  using Tiles = RungTiles<T, kD>;
  using M = Mma<T>;
  static constexpr int kRows = Tiles::kRows, kStride = Tiles::kStride;

  /// `row`: of the warp's first query in the block's tile.
  __device__ WarpAttention(const AttentionOperands<T>& op, std::int64_t b, std::int64_t h, int first_query, int row)
      : op_(op), b_(b), h_(h), row_(row) {
    for (int r = 0; r < 2; ++r) {
      queries_[r] = first_query + row + static_cast<int>(threadIdx.x) % kWarp / 4 + 8 * r;
      seen_[r] = visible_to(op.shape, b, queries_[r]);
    }
  }

  /// Adds kRows keys and values. All lanes must come.
  __device__ void add(const T* q_tile, const T* k_tile, const T* v_tile, int first_key) {
    float scores[kRows / 8][4] = {};
#pragma unroll M::kUnroll
    for (int k = 0; k < kD; k += 16) {
      const auto a = M::load_a(q_tile, kStride, row_, k);
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) M::multiply(scores[2 * n], scores[2 * n + 1], a, M::load_b(k_tile, kStride, n * 16, k));
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) to_weights(scores, r, first_key);
#pragma unroll M::kUnroll
    for (int k = 0; k < kRows / 16; ++k) {
      const auto a = M::from_result(scores, k);
#pragma unroll
      for (int n = 0; n < kD / 16; ++n) M::multiply(sums_[2 * n], sums_[2 * n + 1], a, M::load_b_by_rows(v_tile, kStride, k * 16, n * 16));
    }
  }

  __device__ void write() const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = over_row(softmax_[r].sum, Plus());
      if (queries_[r] >= op_.shape.t) continue;
      if (lane % 4 == 0) op_.write_lse(b_, h_, queries_[r], softmax_[r].maximum, sum);
      T* o = op_.o.at(b_, h_) + queries_[r] * op_.o.row_stride;
#pragma unroll
      for (int i = 0; i < kD / 4; ++i) {
        const int column = i / 2 * 8 + lane % 4 * 2 + i % 2;
        if (column < op_.shape.d) o[column] = narrow<T>(sum == 0 ? 0.0F : sums_[i / 2][2 * r + i % 2] / sum);
      }
    }
  }

 private:
  /// Over the four lanes that share a row.
  template <class F>
  static __device__ float over_row(float value, F f) {
    value = f(value, exchange(value, 1));
    return f(value, exchange(value, 2));
  }

  /// The scores of row `r`, 0 or 1, become weights; earlier results are brought to the new maximum.
  __device__ void to_weights(float (&scores)[kRows / 8][4], int r, int first_key) {
    float largest = kUnseen;
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) {
      const int key = first_key + i / 2 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
      float& score = scores[i / 2][2 * r + i % 2];
      score = key >= seen_[r].begin && key < seen_[r].end ? score * op_.scale_log2 : kUnseen;
      largest = Larger()(score, largest);
    }
    const float factor = softmax_[r].raise(over_row(largest, Larger()));
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) {
      float& score = scores[i / 2][2 * r + i % 2];
      score = softmax_[r].weight(score);
      softmax_[r].sum += score;
    }
#pragma unroll
    for (int i = 0; i < kD / 4; ++i) sums_[i / 2][2 * r + i % 2] *= factor;
  }

  const AttentionOperands<T>& op_;
  std::int64_t b_, h_;
  int row_;
  int queries_[2];
  Visible seen_[2];
  OnlineSoftmax softmax_[2];  // the sums are of this lane's part of the row
  float sums_[kD / 8][4] = {};
};

/// A block for so many queries of a head, with `tiles` tiles in shared memory.
template <class T, int kD>
Grid grid_for(const ops::Attention& op, int tiles) {
  using Tiles = RungTiles<T, kD>;
  return {.x = divide_up(op.q.size(1), Tiles::kRows),
          .y = op.q.size(2),
          .z = op.q.size(0),
          .threads = Tiles::kThreads,
          .shared = Tiles::bytes(tiles * Tiles::kRows)};
}

}  // namespace oxrse::OXRSE_GPU::ladder

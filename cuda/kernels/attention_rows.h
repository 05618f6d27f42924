#pragma once

#include "cuda/kernels/attention.h"

// What the kernels of attention's forward pass share: the softmax of the rows that a thread has a part of, and how they are written.
namespace oxrse::OXRSE_GPU {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// The two rows of C that a thread has a part of.
struct RowState {
  Visible visible;
  float maximum = kNothing;  // of the scaled scores, base 2
  float sum = 0;             // this thread's part
};

/// Over the four threads that share a row.
template <class F>
__device__ float reduce_quad(float value, F f) {
  value = f(value, __shfl_xor_sync(kAllLanes, value, 1));
  return f(value, __shfl_xor_sync(kAllLanes, value, 2));
}

/// Scores become weights relative to the new maximum; returns what earlier results have to be multiplied with. `r`: 0 or 1, the row.
template <int kTiles>
__device__ float softmax_row(float (&scores)[kTiles][4], int r, RowState& row, int first_key, float scale_log2) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
  const bool all = first_key >= row.visible.begin && first_key + 8 * kTiles <= row.visible.end;  // most tiles need no mask
  float maximum = kNothing;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = scores[n][2 * r + i];
      if (!all) {
        const int key = first_key + n * 8 + column + i;
        if (key < row.visible.begin || key >= row.visible.end) score = kNothing;
      }
      maximum = Larger()(score, maximum);
    }
  }
  maximum = Larger()(reduce_quad(maximum, Larger()) * scale_log2, row.maximum);
  const float base = maximum == kNothing ? 0.0F : maximum;  // nothing seen yet: any base will do
  const float factor = exp2_fast(row.maximum - base);
  row.maximum = maximum;
  row.sum *= factor;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = scores[n][2 * r + i];
      score = exp2_fast(score * scale_log2 - base);
      row.sum += score;
    }
  }
  return factor;
}

/// Divides a row by its sum and writes it with its lse; nothing for queries past the end. All lanes must come. `sums[n][2 * r + i]` is
/// column 8 n + 2 (lane % 4) + i of row `r`. kPairs: two columns at a time, for rows that are aligned.
template <bool kPairs, class T, int kTiles>
__device__ void write_row(const Heads<T>& o, float* lse, const AttentionShape& shape, std::int64_t b, std::int64_t h, int query,
                          const RowState& row, const float (&sums)[kTiles][4], int r) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float sum = reduce_quad(row.sum, Plus());
  if (query >= shape.t) return;
  const bool blind = row.visible.begin == row.visible.end;
  const float factor = blind ? 0.0F : 1.0F / sum;
  if (lane % 4 == 0) lse[(b * shape.heads + h) * shape.t + query] = blind ? -kNothing : (row.maximum + log2f(sum)) * kLn2;
  T* to = o.at(b, h) + query * o.row_stride;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int column = n * 8 + lane % 4 * 2;
    const float left = blind ? 0.0F : sums[n][2 * r] * factor, right = blind ? 0.0F : sums[n][2 * r + 1] * factor;
    if constexpr (kPairs) {
      if (column < shape.d) *reinterpret_cast<std::uint32_t*>(to + column) = pack<T>(left, right);
    } else {
      if (column < shape.d) to[column] = narrow<T>(left);
      if (column + 1 < shape.d) to[column + 1] = narrow<T>(right);
    }
  }
}

}  // namespace oxrse::OXRSE_GPU

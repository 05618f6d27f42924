#include "cuda/ladder/attention_forward.h"
#include "cuda/ladder/ladder.h"

// Rung 2: a warp goes over the keys that its query sees with a running maximum and sum (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018), so that no score is ever in memory. Every lane has some columns of q, k, v and o.
namespace oxrse::OXRSE_GPU::ladder {
namespace {

constexpr int kWarps = 4;

template <class T, int kD>
__global__ void warp_a_query(AttentionOperands<T> op) {
  constexpr int kColumns = kD / kWarp;
  const AttentionShape& shape = op.shape;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int query = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t b = blockIdx.z, h = blockIdx.y;
  if (query >= shape.t) return;
  const auto load_row = [&](float(&row)[kColumns], const T* from) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) row[i] = lane + kWarp * i < shape.d ? widen(from[lane + kWarp * i]) : 0.0F;
  };
  float q[kColumns], k[kColumns], v[kColumns], sums[kColumns] = {};
  load_row(q, op.q.at(b, h) + query * op.q.row_stride);
  const T* keys = op.k.at(b, op.kv_head(h));
  const T* values = op.v.at(b, op.kv_head(h));
  const Visible seen = visible_to(shape, b, query);
  OnlineSoftmax softmax;
  for (int key = seen.begin; key < seen.end; ++key) {
    load_row(k, keys + key * op.k.row_stride);
    load_row(v, values + key * op.v.row_stride);
    float score = 0;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) score += q[i] * k[i];
    score = reduce_warp(score, Plus()) * op.scale_log2;
    const float factor = softmax.raise(score), weight = softmax.weight(score);
    softmax.sum += weight;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] = sums[i] * factor + weight * v[i];
  }
  if (lane == 0) op.write_lse(b, h, query, softmax.maximum, softmax.sum);
  T* o = op.o.at(b, h) + query * op.o.row_stride;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    if (lane + kWarp * i < shape.d) o[lane + kWarp * i] = narrow<T>(softmax.sum == 0 ? 0.0F : sums[i] / softmax.sum);
  }
}

}  // namespace

void attention_warp_a_query(Cuda& cuda, const ops::Attention& op) {
  visit_heads(op, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    const Grid grid{.x = divide_up(op.q.size(1), kWarps), .y = op.q.size(2), .z = op.q.size(0), .threads = kWarps * kWarp};
    launch<warp_a_query<T, width>>(cuda, grid, AttentionOperands<T>(op));
  });
}

}  // namespace oxrse::OXRSE_GPU::ladder

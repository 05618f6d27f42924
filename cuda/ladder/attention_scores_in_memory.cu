#include "cuda/ladder/attention_forward.h"
#include "cuda/ladder/ladder.h"

// Rung 1: the formula as it stands. Three kernels hand each other the whole (B, H, T, S) matrix through memory.
namespace oxrse::OXRSE_GPU::ladder {
namespace {

constexpr int kThreads = 128;

/// scores[b,h,t,s], a thread each.
template <class T>
__global__ void all_scores(AttentionOperands<T> op, float* scores) {
  const AttentionShape& shape = op.shape;
  const int s = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x), t = static_cast<int>(blockIdx.y);
  if (s >= shape.s) return;
  const std::int64_t b = blockIdx.z / shape.heads, h = blockIdx.z % shape.heads;
  const Visible seen = visible_to(shape, b, t);
  float score = kUnseen;
  if (s >= seen.begin && s < seen.end) {
    const T* q = op.q.at(b, h) + t * op.q.row_stride;
    const T* k = op.k.at(b, op.kv_head(h)) + s * op.k.row_stride;
    score = 0;
    for (int i = 0; i < shape.d; ++i) score += widen(q[i]) * widen(k[i]);
    score *= op.scale_log2;
  }
  scores[((b * shape.heads + h) * shape.t + t) * shape.s + s] = score;
}

/// A row of scores becomes a row of probabilities, by a warp.
template <class T>
__global__ void softmax_rows(AttentionOperands<T> op, float* scores) {
  const AttentionShape& shape = op.shape;
  const int t = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x);
  const std::int64_t b = blockIdx.z, h = blockIdx.y;
  float* row = scores + ((b * shape.heads + h) * shape.t + t) * shape.s;
  float largest = kUnseen;
  for (int s = lane; s < shape.s; s += kWarp) largest = Larger()(row[s], largest);
  OnlineSoftmax softmax;
  softmax.raise(reduce_warp(largest, Larger()));
  float sum = 0;
  for (int s = lane; s < shape.s; s += kWarp) sum += softmax.weight(row[s]);
  sum = reduce_warp(sum, Plus());
  for (int s = lane; s < shape.s; s += kWarp) row[s] = sum == 0 ? 0.0F : softmax.weight(row[s]) / sum;
  if (lane == 0) op.write_lse(b, h, t, softmax.maximum, sum);
}

/// o[b,t,h,d], a thread each.
template <class T>
__global__ void weighted_values(AttentionOperands<T> op, const float* probabilities) {
  const AttentionShape& shape = op.shape;
  const int t = static_cast<int>(blockIdx.x), i = static_cast<int>(threadIdx.x);
  const std::int64_t b = blockIdx.z, h = blockIdx.y;
  if (i >= shape.d) return;
  const float* row = probabilities + ((b * shape.heads + h) * shape.t + t) * shape.s;
  const T* v = op.v.at(b, op.kv_head(h)) + i;
  float sum = 0;
  for (int s = 0; s < shape.s; ++s) sum += row[s] * widen(v[s * op.v.row_stride]);
  op.o.at(b, h)[t * op.o.row_stride + i] = narrow<T>(sum);
}

}  // namespace

void attention_scores_in_memory(Cuda& cuda, const ops::Attention& op) {
  visit_heads(op, [&](auto tag, auto /*width*/) {
    using T = typename decltype(tag)::type;
    const AttentionOperands<T> operands(op);
    const std::int64_t b = op.q.size(0), t = op.q.size(1), s = op.k.size(1), h = op.q.size(2);
    auto* scores = static_cast<float*>(cuda.scratch(static_cast<std::size_t>(b * h * t * s) * sizeof(float)));
    launch<all_scores<T>>(cuda, {.x = divide_up(s, kThreads), .y = t, .z = b * h, .threads = kThreads}, operands, scores);
    launch<softmax_rows<T>>(cuda, {.x = t, .y = h, .z = b, .threads = kWarp}, operands, scores);
    launch<weighted_values<T>>(cuda, {.x = t, .y = h, .z = b, .threads = kThreads}, operands, scores);
  });
}

}  // namespace oxrse::OXRSE_GPU::ladder

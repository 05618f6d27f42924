#include "cuda/ladder/attention_forward.h"
#include "cuda/ladder/ladder.h"

// Rung 3: a block of 32 queries copies 32 keys and values at a time to shared memory, where all its queries use them. Lanes are keys while
// scores are made and columns while values are added up, so only the weights go from lane to lane.
namespace oxrse::OXRSE_GPU::ladder {
namespace {

constexpr int kWarps = 8, kQueries = 4;  // of a warp
constexpr int kRows = kWarps * kQueries, kKeys = kWarp;

/// Rows are an odd number of banks long: lanes that read the same column of different rows do not meet in one.
template <class T, int kD>
inline constexpr int kStride = kD + 4 / static_cast<int>(sizeof(T));

/// Rows [first, first + 32) of a head; 0 past its rows and width.
template <class T, int kD>
__device__ void copy_rows(T* tile, const T* head, std::int64_t row_stride, int first, int count, int d) {
  for (int i = static_cast<int>(threadIdx.x); i < kWarp * kD; i += kWarps * kWarp) {
    const int row = i / kD, c = i % kD;
    tile[row * kStride<T, kD> + c] = first + row < count && c < d ? head[(first + row) * row_stride + c] : narrow<T>(0.0F);
  }
}

template <class T, int kD>
__global__ void shared_tiles(AttentionOperands<T> op) {
  constexpr int kColumns = kD / kWarp;
  T* q_tile = shared_memory<T>();
  T* k_tile = q_tile + kRows * kStride<T, kD>;
  T* v_tile = k_tile + kKeys * kStride<T, kD>;
  const AttentionShape& shape = op.shape;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp_row = static_cast<int>(threadIdx.x) / kWarp * kQueries;
  const int first_query = static_cast<int>(blockIdx.x) * kRows;
  const std::int64_t b = blockIdx.z, h = blockIdx.y;
  copy_rows<T, kD>(q_tile, op.q.at(b, h), op.q.row_stride, first_query, shape.t, shape.d);
  OnlineSoftmax softmax[kQueries];
  float sums[kQueries][kColumns] = {};
  const Visible some = visible_to_some(shape, b, first_query, kRows);
  for (int first = some.begin; first < some.end; first += kKeys) {
    __syncthreads();  // nobody needs the last tiles any more
    copy_rows<T, kD>(k_tile, op.k.at(b, op.kv_head(h)), op.k.row_stride, first, shape.s, shape.d);
    copy_rows<T, kD>(v_tile, op.v.at(b, op.kv_head(h)), op.v.row_stride, first, shape.s, shape.d);
    __syncthreads();  // the tiles are there
    float weights[kQueries] = {};
    for (int c = 0; c < kD; ++c) {
      const float k = widen(k_tile[lane * kStride<T, kD> + c]);
#pragma unroll
      for (int i = 0; i < kQueries; ++i) weights[i] += widen(q_tile[(warp_row + i) * kStride<T, kD> + c]) * k;
    }
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      const Visible seen = visible_to(shape, b, first_query + warp_row + i);
      const float score = first + lane >= seen.begin && first + lane < seen.end ? weights[i] * op.scale_log2 : kUnseen;
      const float factor = softmax[i].raise(reduce_warp(score, Larger()));
      weights[i] = softmax[i].weight(score);
      softmax[i].sum += reduce_warp(weights[i], Plus());
      for (float& sum : sums[i]) sum *= factor;
    }
    for (int key = 0; key < kKeys; ++key) {
      const T* v = v_tile + key * kStride<T, kD> + lane;
#pragma unroll
      for (int i = 0; i < kQueries; ++i) {
        const float weight = __shfl_sync(kAllLanes, weights[i], key);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] += weight * widen(v[kWarp * j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kQueries; ++i) {
    const int query = first_query + warp_row + i;
    if (query >= shape.t) break;
    if (lane == 0) op.write_lse(b, h, query, softmax[i].maximum, softmax[i].sum);
    T* o = op.o.at(b, h) + query * op.o.row_stride;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      if (lane + kWarp * j < shape.d) o[lane + kWarp * j] = narrow<T>(softmax[i].sum == 0 ? 0.0F : sums[i][j] / softmax[i].sum);
    }
  }
}

}  // namespace

void attention_shared_tiles(Cuda& cuda, const ops::Attention& op) {
  visit_heads(op, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    const Grid grid{.x = divide_up(op.q.size(1), kRows),
                    .y = op.q.size(2),
                    .z = op.q.size(0),
                    .threads = kWarps * kWarp,
                    .shared = static_cast<std::size_t>((kRows + 2 * kKeys) * kStride<T, width>) * sizeof(T)};
    launch<shared_tiles<T, width>>(cuda, grid, AttentionOperands<T>(op));
  });
}

}  // namespace oxrse::OXRSE_GPU::ladder

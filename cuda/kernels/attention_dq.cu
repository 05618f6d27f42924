#include "cuda/kernels/attention.h"
#include "cuda/kernels/kernels.h"

// The first half of attention's backward pass: delta = rowsum(do * o), one warp a row; then dq. A block has 64 queries of one head and goes
// over the keys that some of them see, as forward does, 32 at a time where heads are wide. dk and dv have a kernel of their own, which
// computes the scores once more: 7 products instead of 5, but every sum has one owner and one order, and needs neither atomics nor memory
// for partial sums.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

template <class T>
struct Operands {
  Heads<T> dq;
  const float *lse, *delta;
  Heads<const T> d_o, q, k, v;
  AttentionShape shape;
  float scale;
};

constexpr int kDeltaThreads = 128;

/// Rows are numbered (b * T + t) * H + h.
template <class T>
__global__ void row_sums(float* delta, Heads<const T> d_o, Heads<const T> o, AttentionShape shape, std::int64_t rows) {
  const std::int64_t row = std::int64_t{blockIdx.x} * (kDeltaThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= rows) return;
  const std::int64_t h = row % shape.heads, t = row / shape.heads % shape.t, b = row / shape.heads / shape.t;
  const T* x = d_o.at(b, h) + t * d_o.row_stride;
  const T* y = o.at(b, h) + t * o.row_stride;
  float sum = 0;
  for (int j = static_cast<int>(threadIdx.x) % kWarp; j < shape.d; j += kWarp) sum += widen(x[j]) * widen(y[j]);
  sum = reduce_warp(sum, Plus());
  if (threadIdx.x % kWarp == 0) delta[(b * shape.heads + h) * shape.t + t] = sum;
}

template <class T, int kD>
__global__ void __launch_bounds__(AttentionTiles<T, kD>::kThreads) query_gradient(Operands<T> op) {
  using Tiles = AttentionTiles<T, kD>;
  using M = Mma<T>;
  constexpr int kRows = Tiles::kRows, kKeys = Tiles::kPassing, kStride = Tiles::kStride, kColumnTiles = kD / 8;
  static_assert(Tiles::bytes(2 * kRows + 2 * kKeys) <= kMostShared);
  T* q_tile = shared_memory<T>();
  T* do_tile = q_tile + kRows * kStride;
  T* k_tile = do_tile + kRows * kStride;
  T* v_tile = k_tile + kKeys * kStride;
  const AttentionShape& shape = op.shape;
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const std::int64_t b = blockIdx.z, h = blockIdx.y, kv_head = h / (shape.heads / shape.kv_heads);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp_row = static_cast<int>(threadIdx.x) / kWarp * kMmaRows;
  const Visible some = visible_to_some(shape, b, first_query, kRows);

  Visible visible[2];
  float lse_log2[2] = {}, delta[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = first_query + warp_row + lane / 4 + 8 * r;
    visible[r] = visible_to(shape, b, query);
    if (query >= shape.t) continue;
    const std::int64_t row = (b * shape.heads + h) * shape.t + query;
    lse_log2[r] = op.lse[row] * kLog2E;
    delta[r] = op.delta[row];
  }
  const float scale_log2 = op.scale * kLog2E;
  float sums[kColumnTiles][4] = {};
  const int begin = some.begin / kKeys * kKeys;
  if (begin < some.end) {
    load_tile<T, kD, kRows>(q_tile, op.q.at(b, h), op.q.row_stride, op.q.aligned, first_query, shape.t, shape.d);
    load_tile<T, kD, kRows>(do_tile, op.d_o.at(b, h), op.d_o.row_stride, op.d_o.aligned, first_query, shape.t, shape.d);
  }
  for (int first = begin; first < some.end; first += kKeys) {
    load_tile<T, kD, kKeys>(k_tile, op.k.at(b, kv_head), op.k.row_stride, op.k.aligned, first, shape.s, shape.d);
    load_tile<T, kD, kKeys>(v_tile, op.v.at(b, kv_head), op.v.row_stride, op.v.aligned, first, shape.s, shape.d);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    float scores[kKeys / 8][4] = {}, weights_gradient[kKeys / 8][4] = {};
    multiply_two<T, kD, kKeys>(scores, q_tile, k_tile, weights_gradient, do_tile, v_tile, warp_row);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first + n * 8 + lane % 4 * 2 + i % 2, r = i / 2;
        const bool seen = key >= visible[r].begin && key < visible[r].end;
        const float p = exp2_fast(scores[n][i] * scale_log2 - lse_log2[r]);
        scores[n][i] = seen ? p * (weights_gradient[n][i] - delta[r]) : 0.0F;
      }
    }
#pragma unroll M::kUnroll
    for (int k = 0; k < kKeys / 16; ++k) {
      const auto ds = M::from_result(scores, k);
#pragma unroll
      for (int n = 0; n < kD / 16; ++n) M::multiply(sums[2 * n], sums[2 * n + 1], ds, M::load_b_by_rows(k_tile, kStride, k * 16, n * 16));
    }
    __syncthreads();  // before the tiles are written again
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = first_query + warp_row + lane / 4 + 8 * r;
    if (query >= shape.t) continue;
    T* dq = op.dq.at(b, h) + query * op.dq.row_stride;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = n * 8 + lane % 4 * 2 + i;
        if (column < shape.d) dq[column] = narrow<T>(op.scale * sums[n][2 * r + i]);
      }
    }
  }
}

}  // namespace

void launch(Cuda& cuda, const Attention::Backward& op) {
  visit_compute(op.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t rows = op.q.size(0) * op.q.size(1) * op.q.size(2);
    launch<row_sums<T>>(cuda, {.x = divide_up(rows, kDeltaThreads / kWarp), .threads = kDeltaThreads}, op.delta.data<float>(),
                        Heads<const T>(op.d_o), Heads<const T>(op.o), AttentionShape(op), rows);
  });
  launch_attention_dq(cuda, op);
  launch_attention_dkv(cuda, op);
}

void launch_attention_dq(Cuda& cuda, const ops::Attention::Backward& op) {
  visit_compute(op.q.dtype(), [&](auto tag) {
    visit_width(op.q.size(3), [&](auto width) {
      using T = typename decltype(tag)::type;
      using Tiles = AttentionTiles<T, width>;
      const Operands<T> operands{.dq = Heads<T>(op.dq),
                                 .lse = op.lse.data<float>(),
                                 .delta = op.delta.data<float>(),
                                 .d_o = Heads<const T>(op.d_o),
                                 .q = Heads<const T>(op.q),
                                 .k = Heads<const T>(op.k),
                                 .v = Heads<const T>(op.v),
                                 .shape = AttentionShape(op),
                                 .scale = static_cast<float>(op.scale)};
      const Grid grid{.x = divide_up(op.q.size(1), Tiles::kRows),
                      .y = op.q.size(2),
                      .z = op.q.size(0),
                      .threads = Tiles::kThreads,
                      .shared = Tiles::bytes(2 * Tiles::kRows + 2 * Tiles::kPassing)};
      launch<query_gradient<T, width>>(cuda, grid, operands);
    });
  });
}

}  // namespace oxrse::OXRSE_GPU

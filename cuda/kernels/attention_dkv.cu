#include <algorithm>

#include "cuda/kernels/attention.h"

// The second half of attention's backward pass: dk and dv. A block has 64 keys of one key/value head and goes over the query heads of its
// group and the queries that may see one of the keys, 32 at a time, with transposed scores: so P^T and dS^T come out of the first products
// in the registers that the second ones want. What a block has to know of a query is in the 16 bytes by which the query's row is padded.
// Heads wider than 128 have a block for each half of dk and dv, because the sums of both would not fit the registers.
namespace oxrse::OXRSE_GPU {
namespace {

template <class T>
struct Operands {
  Heads<T> dk, dv;
  const float *lse, *delta;
  Heads<const T> d_o, q, k, v;
  AttentionShape shape;
  float scale;
};

/// Of a query: which keys it sees, and what their weights and the gradients of these follow from. As large as the padding of a row.
struct alignas(16) Query {
  Visible visible;
  float lse_log2;
  float delta;
};

template <class T, int kD>
struct Sizes : AttentionTiles<T, kD> {
  using Tiles = AttentionTiles<T, kD>;
  static constexpr int kQueries = Tiles::kPassing < 32 ? Tiles::kPassing : 32;
  static constexpr std::size_t kShared = Tiles::bytes(2 * Tiles::kRows + 2 * kQueries);
  static_assert(sizeof(Query) == (Tiles::kStride - kD) * sizeof(T) && kShared <= kMostShared);

  static __device__ Query& query(T* tile, int i) { return *reinterpret_cast<Query*>(tile + i * Tiles::kStride + kD); }
};

template <class T, int kD>
__device__ void load_queries(T* tile, const Operands<T>& op, std::int64_t b, std::int64_t h, int first) {
  using S = Sizes<T, kD>;
  for (int i = static_cast<int>(threadIdx.x); i < S::kQueries; i += static_cast<int>(blockDim.x)) {
    const bool exists = first + i < op.shape.t;
    const std::int64_t row = (b * op.shape.heads + h) * op.shape.t + first + i;
    S::query(tile, i) = {.visible = visible_to(op.shape, b, first + i),
                         .lse_log2 = exists ? op.lse[row] * kLog2E : 0.0F,
                         .delta = exists ? op.delta[row] : 0.0F};
  }
}

/// Writes columns [first_column, first_column + 8 * kTiles) of the rows of this warp.
template <class T, int kTiles>
__device__ void write_rows(const Heads<T>& to, std::int64_t b, std::int64_t h, int first_row, int rows, int first_column, int columns,
                           const float (&sums)[kTiles][4], float scale) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + lane / 4 + 8 * r;
    if (row >= rows) continue;
    T* out = to.at(b, h) + row * to.row_stride;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = first_column + n * 8 + lane % 4 * 2 + i;
        if (column < columns) out[column] = narrow<T>(scale * sums[n][2 * r + i]);
      }
    }
  }
}

template <class T, int kD>
__global__ void __launch_bounds__(AttentionTiles<T, kD>::kThreads) key_gradients(Operands<T> op) {
  using S = Sizes<T, kD>;
  using M = Mma<T>;
  constexpr int kRows = S::kRows, kQueries = S::kQueries, kStride = S::kStride;
  constexpr int kColumns = kD > 128 ? 128 : kD, kParts = kD / kColumns;  // of dk and dv
  T* k_tile = shared_memory<T>();
  T* v_tile = k_tile + kRows * kStride;
  T* q_tile = v_tile + kRows * kStride;
  T* do_tile = q_tile + kQueries * kStride;
  const AttentionShape& shape = op.shape;
  const int first_key = static_cast<int>(blockIdx.x) / kParts * kRows, first_column = static_cast<int>(blockIdx.x) % kParts * kColumns;
  const std::int64_t b = blockIdx.z, kv_head = blockIdx.y;
  const int group = shape.heads / shape.kv_heads;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp_row = static_cast<int>(threadIdx.x) / kWarp * kMmaRows;
  // Queries before the first key do not see it, nor do those after the last key has left their window.
  const int before = shape.s - shape.t;
  const int begin = max(0, first_key - before) / kQueries * kQueries;
  const int end = shape.window > 0 ? min(shape.t, first_key + kRows - 1 + shape.window - before) : shape.t;
  const float scale_log2 = op.scale * kLog2E;

  load_tile<T, kD, kRows>(k_tile, op.k.at(b, kv_head), op.k.row_stride, op.k.aligned, first_key, shape.s, shape.d);
  load_tile<T, kD, kRows>(v_tile, op.v.at(b, kv_head), op.v.row_stride, op.v.aligned, first_key, shape.s, shape.d);
  commit_copies();
  float dk[kColumns / 8][4] = {}, dv[kColumns / 8][4] = {};
  for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    for (int first = begin; first < end; first += kQueries) {
      load_tile<T, kD, kQueries>(q_tile, op.q.at(b, h), op.q.row_stride, op.q.aligned, first, shape.t, shape.d);
      load_tile<T, kD, kQueries>(do_tile, op.d_o.at(b, h), op.d_o.row_stride, op.d_o.aligned, first, shape.t, shape.d);
      commit_copies();
      load_queries<T, kD>(q_tile, op, b, h, first);
      wait_for_copies<0>();
      __syncthreads();
      float scores[kQueries / 8][4] = {}, weights_gradient[kQueries / 8][4] = {};  // [key][query]
      multiply_two<T, kD, kQueries>(scores, k_tile, q_tile, weights_gradient, v_tile, do_tile, warp_row);
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const Query& query = S::query(q_tile, n * 8 + lane % 4 * 2 + i % 2);
          const int key = first_key + warp_row + lane / 4 + i / 2 * 8;
          const bool seen = key >= query.visible.begin && key < query.visible.end;
          const float p = seen ? exp2_fast(scores[n][i] * scale_log2 - query.lse_log2) : 0.0F;
          scores[n][i] = p;
          weights_gradient[n][i] = seen ? p * (weights_gradient[n][i] - query.delta) : 0.0F;
        }
      }
#pragma unroll(kD > 64 ? M::kUnroll : 2)
      for (int k = 0; k < kQueries / 16; ++k) {
        const auto p = M::from_result(scores, k);
        const auto ds = M::from_result(weights_gradient, k);
#pragma unroll
        for (int n = 0; n < kColumns / 16; ++n) {
          const int column = first_column + n * 16;
          M::multiply(dv[2 * n], dv[2 * n + 1], p, M::load_b_by_rows(do_tile, kStride, k * 16, column));
          M::multiply(dk[2 * n], dk[2 * n + 1], ds, M::load_b_by_rows(q_tile, kStride, k * 16, column));
        }
      }
      __syncthreads();  // before the tiles are written again
    }
  }
  wait_for_copies<0>();  // where no query sees the keys
  write_rows(op.dk, b, kv_head, first_key + warp_row, shape.s, first_column, shape.d, dk, op.scale);
  write_rows(op.dv, b, kv_head, first_key + warp_row, shape.s, first_column, shape.d, dv, 1.0F);
}

}  // namespace

void launch_attention_dkv(Cuda& cuda, const ops::Attention::Backward& op) {
  visit_compute(op.q.dtype(), [&](auto tag) {
    visit_width(op.q.size(3), [&](auto width) {
      using T = typename decltype(tag)::type;
      using S = Sizes<T, width>;
      const Operands<T> operands{.dk = Heads<T>(op.dk),
                                 .dv = Heads<T>(op.dv),
                                 .lse = op.lse.data<float>(),
                                 .delta = op.delta.data<float>(),
                                 .d_o = Heads<const T>(op.d_o),
                                 .q = Heads<const T>(op.q),
                                 .k = Heads<const T>(op.k),
                                 .v = Heads<const T>(op.v),
                                 .shape = AttentionShape(op),
                                 .scale = static_cast<float>(op.scale)};
      const std::int64_t parts = width > 128 ? 2 : 1;
      const Grid grid{.x = divide_up(op.k.size(1), S::kRows) * parts,
                      .y = op.k.size(2),
                      .z = op.q.size(0),
                      .threads = S::kThreads,
                      .shared = S::kShared};
      launch<key_gradients<T, width>>(cuda, grid, operands);
    });
  });
}

}  // namespace oxrse::OXRSE_GPU

#include "cuda/ladder/ladder.h"
#include "cuda/ladder/warp_attention.h"

// Rung 5: cp.async copies the next keys and values past the registers into a second pair of tiles, while the tensor cores work on the
// first.
namespace oxrse::OXRSE_GPU::ladder {
namespace {

template <class T, int kD>
__global__ void __launch_bounds__(RungTiles<T, kD>::kThreads) two_buffers(AttentionOperands<T> op) {
  using Tiles = RungTiles<T, kD>;
  constexpr int kRows = Tiles::kRows, kTile = kRows * Tiles::kStride;
  T* q_tile = shared_memory<T>();
  T* pairs = q_tile + kTile;  // keys, values; keys, values
  const AttentionShape& shape = op.shape;
  const int first_query = static_cast<int>(blockIdx.x) * kRows;
  const std::int64_t b = blockIdx.z, h = blockIdx.y, kv_head = op.kv_head(h);
  const Visible some = visible_to_some(shape, b, first_query, kRows);
  const auto start_pair = [&](T* pair, int first) {
    if (first < some.end) {
      load_tile<T, kD, kRows>(pair, op.k.at(b, kv_head), op.k.row_stride, op.k.aligned, first, shape.s, shape.d);
      load_tile<T, kD, kRows>(pair + kTile, op.v.at(b, kv_head), op.v.row_stride, op.v.aligned, first, shape.s, shape.d);
    }
    commit_copies();
  };

  WarpAttention<T, kD> warp(op, b, h, first_query, static_cast<int>(threadIdx.x) / kWarp * kMmaRows);
  load_tile<T, kD, kRows>(q_tile, op.q.at(b, h), op.q.row_stride, op.q.aligned, first_query, shape.t, shape.d);
  start_pair(pairs, some.begin);  // one group with the queries
  int turn = 0;
  for (int first = some.begin; first < some.end; first += kRows, turn ^= 1) {
    T* pair = pairs + turn * 2 * kTile;
    start_pair(pairs + (turn ^ 1) * 2 * kTile, first + kRows);
    wait_for_copies<1>();
    __syncthreads();  // this pair is there
    warp.add(q_tile, pair, pair + kTile, first);
    __syncthreads();  // nobody needs it any more
  }
  wait_for_copies<0>();
  warp.write();
}

}  // namespace

void attention_two_buffers(Cuda& cuda, const ops::Attention& op) {
  visit_heads(op, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    launch<two_buffers<T, width>>(cuda, grid_for<T, width>(op, 5), AttentionOperands<T>(op));
  });
}

}  // namespace oxrse::OXRSE_GPU::ladder

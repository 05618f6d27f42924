#include "cuda/ladder/ladder.h"
#include "cuda/ladder/warp_attention.h"

// Rung 4: 64 queries a block, 32 in wide heads of f32, both products by tensor cores, which take their operands from shared memory by
// ldmatrix. Scores and weights never leave the registers. All threads wait while tiles are copied.
namespace oxrse::OXRSE_GPU::ladder {
namespace {

/// The rows that load_tile copies, through registers.
template <class T, int kD, int kRows>
__device__ void copy_tile(T* tile, const T* head, std::int64_t row_stride, bool aligned, int first, int count, int d) {
  constexpr int kPacks = kD / kPack<T>;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += static_cast<int>(blockDim.x)) {
    const int row = i / kPacks, c = i % kPacks * kPack<T>;
    const bool there = first + row < count && c < d;
    store(tile + row * RungTiles<T, kD>::kStride, c, kD, true,
          load(head + (there ? (first + row) * row_stride : 0), c, there ? d : 0, aligned));
  }
}

template <class T, int kD>
__global__ void __launch_bounds__(RungTiles<T, kD>::kThreads) tensor_cores(AttentionOperands<T> op) {
  using Tiles = RungTiles<T, kD>;
  constexpr int kRows = Tiles::kRows;
  T* q_tile = shared_memory<T>();
  T* k_tile = q_tile + kRows * Tiles::kStride;
  T* v_tile = k_tile + kRows * Tiles::kStride;
  const AttentionShape& shape = op.shape;
  const int first_query = static_cast<int>(blockIdx.x) * kRows;
  const std::int64_t b = blockIdx.z, h = blockIdx.y, kv_head = op.kv_head(h);
  WarpAttention<T, kD> warp(op, b, h, first_query, static_cast<int>(threadIdx.x) / kWarp * kMmaRows);
  copy_tile<T, kD, kRows>(q_tile, op.q.at(b, h), op.q.row_stride, op.q.aligned, first_query, shape.t, shape.d);
  const Visible some = visible_to_some(shape, b, first_query, kRows);
  for (int first = some.begin; first < some.end; first += kRows) {
    __syncthreads();  // nobody needs the last tiles any more
    copy_tile<T, kD, kRows>(k_tile, op.k.at(b, kv_head), op.k.row_stride, op.k.aligned, first, shape.s, shape.d);
    copy_tile<T, kD, kRows>(v_tile, op.v.at(b, kv_head), op.v.row_stride, op.v.aligned, first, shape.s, shape.d);
    __syncthreads();  // the tiles are there
    warp.add(q_tile, k_tile, v_tile, first);
  }
  warp.write();
}

}  // namespace

void attention_tensor_cores(Cuda& cuda, const ops::Attention& op) {
  visit_heads(op, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    launch<tensor_cores<T, width>>(cuda, grid_for<T, width>(op, 3), AttentionOperands<T>(op));
  });
}

}  // namespace oxrse::OXRSE_GPU::ladder

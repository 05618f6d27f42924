#include "cuda/kernels/attention_rows.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/table.h"

// A block has 64 queries of one head and goes over the keys that some of them see, 64 at a time: scores by tensor cores, a running maximum
// and sum in base 2 (Dao, "FlashAttention-2", 2023), weights straight from registers into the second product. The copy of the next keys
// runs under the softmax, that of the values under the scores. Late queries see most keys: their blocks go first. Every value is added up
// in the order of the keys by one thread: the same bits in every run. It loses against wgmma and TMA on Hopper, whose tensor cores mma.sync
// fills to 60%: there sm_90a/attention_wgmma.cu takes its place.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

template <class T>
struct Operands {
  Heads<T> o;
  float* lse;
  Heads<const T> q, k, v;
  AttentionShape shape;
  float scale_log2;  // scale * log2(e)
};

template <class T, int kD>
__global__ void __launch_bounds__(AttentionTiles<T, kD>::kThreads) attention_forward(Operands<T> op) {
  using Tiles = AttentionTiles<T, kD>;
  using M = Mma<T>;
  constexpr int kRows = Tiles::kRows, kStride = Tiles::kStride, kColumnTiles = kD / 8;
  static_assert(Tiles::bytes(3 * kRows) <= kMostShared);
  T* q_tile = shared_memory<T>();
  T* k_tile = q_tile + kRows * kStride;
  T* v_tile = k_tile + kRows * kStride;
  const AttentionShape& shape = op.shape;
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const std::int64_t b = blockIdx.z, h = blockIdx.y, kv_head = h / (shape.heads / shape.kv_heads);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp_row = static_cast<int>(threadIdx.x) / kWarp * kMmaRows;
  const Visible some = visible_to_some(shape, b, first_query, kRows);
  const auto load_keys = [&](int first) {
    load_tile<T, kD, kRows>(k_tile, op.k.at(b, kv_head), op.k.row_stride, op.k.aligned, first, shape.s, shape.d);
    commit_copies();
  };
  const auto load_values = [&](int first) {
    load_tile<T, kD, kRows>(v_tile, op.v.at(b, kv_head), op.v.row_stride, op.v.aligned, first, shape.s, shape.d);
    commit_copies();
  };

  RowState rows[2];
  for (int r = 0; r < 2; ++r) rows[r].visible = visible_to(shape, b, first_query + warp_row + lane / 4 + 8 * r);
  float sums[kColumnTiles][4] = {};
  const int begin = some.begin / kRows * kRows;
  if (begin < some.end) {
    load_tile<T, kD, kRows>(q_tile, op.q.at(b, h), op.q.row_stride, op.q.aligned, first_query, shape.t, shape.d);
    load_keys(begin);
  }
  for (int first = begin; first < some.end; first += kRows) {
    wait_for_copies<0>();
    __syncthreads();  // the keys are there, and nobody needs the last values any more
    load_values(first);
    float scores[kRows / 8][4] = {};
#pragma unroll M::kUnroll
    for (int k = 0; k < kD; k += 16) {
      const auto a = M::load_a(q_tile, kStride, warp_row, k);
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) M::multiply(scores[2 * n], scores[2 * n + 1], a, M::load_b(k_tile, kStride, n * 16, k));
    }
    wait_for_copies<0>();
    __syncthreads();  // the values are there, and nobody needs the keys any more
    if (first + kRows < some.end) load_keys(first + kRows);
    float factors[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) factors[r] = softmax_row(scores, r, rows[r], first, op.scale_log2);
#pragma unroll
    for (auto& sum : sums) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] *= factors[i / 2];
    }
#pragma unroll M::kUnroll
    for (int k = 0; k < kRows / 16; ++k) {
      const auto a = M::from_result(scores, k);
#pragma unroll
      for (int n = 0; n < kD / 16; ++n) M::multiply(sums[2 * n], sums[2 * n + 1], a, M::load_b_by_rows(v_tile, kStride, k * 16, n * 16));
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = first_query + warp_row + lane / 4 + 8 * r;
    write_row<false>(op.o, op.lse, shape, b, h, query, rows[r], sums, r);
  }
}

}  // namespace

void launch(Cuda& cuda, const Attention& op) {
  if (cuda.wgmma && cuda.kernels->attention_wgmma(cuda, op)) return;
  visit_compute(op.q.dtype(), [&](auto tag) {
    visit_width(op.q.size(3), [&](auto width) {
      using T = typename decltype(tag)::type;
      using Tiles = AttentionTiles<T, width>;
      const Operands<T> operands{.o = Heads<T>(op.o),
                                 .lse = op.lse.data<float>(),
                                 .q = Heads<const T>(op.q),
                                 .k = Heads<const T>(op.k),
                                 .v = Heads<const T>(op.v),
                                 .shape = AttentionShape(op),
                                 .scale_log2 = static_cast<float>(op.scale) * kLog2E};
      const Grid grid{.x = divide_up(op.q.size(1), Tiles::kRows),
                      .y = op.q.size(2),
                      .z = op.q.size(0),
                      .threads = Tiles::kThreads,
                      .shared = Tiles::bytes(3 * Tiles::kRows)};
      launch<attention_forward<T, width>>(cuda, grid, operands);
    });
  });
}

}  // namespace oxrse::OXRSE_GPU

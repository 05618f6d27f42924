#include "cuda/kernels/attention.h"
#include "cuda/kernels/kernels.h"

// A block has 64 queries of one head and goes over the keys that some of them see, 64 at a time: scores by tensor cores, a running maximum
// and sum in base 2 (Dao, "FlashAttention-2", 2023), weights straight from registers into the second product. The copy of the next keys
// runs under the softmax, that of the values under the scores. Late queries see most keys: their blocks go first. Every value is added up
// in the order of the keys by one thread: the same bits in every run. It loses against wgmma and TMA on Hopper, whose tensor cores mma.sync
// fills to 60%.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr float kNothing = -std::numeric_limits<float>::infinity();

template <class T>
struct Operands {
  Heads<T> o;
  float* lse;
  Heads<const T> q, k, v;
  AttentionShape shape;
  float scale_log2;  // scale * log2(e)
};

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
  float maximum = kNothing;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int key = first_key + n * 8 + column + i;
      float& score = scores[n][2 * r + i];
      if (key < row.visible.begin || key >= row.visible.end) score = kNothing;
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

template <class T, int kD>
__global__ void __launch_bounds__(AttentionTiles<T, kD>::kThreads) attention_forward(Operands<T> op) {
  using Tiles = AttentionTiles<T, kD>;
  using M = Mma<T>;
  constexpr int kRows = Tiles::kRows, kStride = Tiles::kStride, kColumnTiles = kD / 8;
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
    const float sum = reduce_quad(rows[r].sum, Plus());
    if (query >= shape.t) continue;
    const bool blind = rows[r].visible.begin == rows[r].visible.end;
    const float factor = blind ? 0.0F : 1.0F / sum;
    if (lane % 4 == 0) {
      op.lse[(b * shape.heads + h) * shape.t + query] = blind ? -kNothing : (rows[r].maximum + log2f(sum)) * kLn2;
    }
    T* o = op.o.at(b, h) + query * op.o.row_stride;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = n * 8 + lane % 4 * 2 + i;
        if (column < shape.d) o[column] = narrow<T>(blind ? 0.0F : sums[n][2 * r + i] * factor);
      }
    }
  }
}

}  // namespace

void launch(Cuda& cuda, const Attention& op) {
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

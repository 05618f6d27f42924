#include <limits>

#include "cuda/kernels/attention_rows.h"
#include "cuda/kernels/kernels.h"
#include "cuda/wgmma.h"

// Attention's forward pass for Hopper (compute capability 9.0), in bf16 and fp16: what attention_forward.cu computes, with wgmma and TMA.
//
// A block has 128 queries of one head and three warpgroups. One thread of the first keeps two tiles of keys and two of values of 128 rows
// under way. The other two warpgroups have 64 queries each and go over the tiles: while the tensor cores compute the scores of a tile and
// the sums of the one before, the softmax waits for the scores only; and the two take turns in starting products, so that one's softmax
// runs under the other's products (Shah et al., "FlashAttention-3", 2024, whose schedule this is). Weights go from registers into the
// second product. Rows, columns and samples past the end are 0 by the copies and masked as everywhere. It loses where a sequence has few
// tiles: a block neither starts its copies nor writes its results under another block's products.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr int kQueries = 128, kKeys = 128, kStages = 2;
constexpr int kConsumers = 2;  // warpgroups, of 64 queries each
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kAlignment = 1024;                        // of tiles: eight rows of the swizzle
constexpr int kBox = kKeys * kBoxColumns * 2;           // bytes of 128 rows of 64 columns
constexpr int kEightRows = 1024, kSixteenColumns = 32;  // bytes
static_assert(kQueries == kKeys);

/// Whose copies have come, and which tiles may be written again.
struct Barriers {
  Mbarrier queries;
  Mbarrier keys[kStages], values[kStages];
  Mbarrier free_keys[kStages], free_values[kStages];
};

template <int kD>
struct HopperTiles {
  static constexpr int kBoxes = kD / kBoxColumns;
  static constexpr int kBytes = kBoxes * kBox;  // of 128 queries, keys or values
  static constexpr std::size_t kShared = kAlignment + (1 + 2 * kStages) * kBytes + sizeof(Barriers);

  char* queries;

  __device__ HopperTiles() {
    char* memory = shared_memory<char>();
    queries = memory + (kAlignment - shared_address(memory) % kAlignment) % kAlignment;
  }
  __device__ char* keys(int stage) const { return queries + (1 + stage) * kBytes; }
  __device__ char* values(int stage) const { return queries + (1 + kStages + stage) * kBytes; }
  __device__ Barriers& barriers() const { return *reinterpret_cast<Barriers*>(queries + (1 + 2 * kStages) * kBytes); }
};

template <class T>
struct Operands {
  TensorMap q, k, v;
  Heads<T> o;
  float* lse;
  AttentionShape shape;
  float scale_log2;  // scale * log2(e)
};

/// The parity of the phase of a tile's barrier in which it is written for the n-th time.
__device__ __forceinline__ int parity_of(int tile) { return tile / kStages % 2; }

template <int kD>
__device__ void copy_tile(char* to, const TensorMap& map, int first, std::int64_t head, std::int64_t b, Mbarrier& barrier) {
  arrive_expecting(&barrier, HopperTiles<kD>::kBytes);
  for (int i = 0; i < HopperTiles<kD>::kBoxes; ++i) {
    copy_box(to + i * kBox, map, i * kBoxColumns, static_cast<int>(head), first, static_cast<int>(b), &barrier);
  }
}

/// What the one thread does that copies.
template <class T, int kD>
__device__ void copy_tiles(const Operands<T>& op, const HopperTiles<kD>& tiles, int first_query, int first_key, int count) {
  Barriers& barriers = tiles.barriers();
  const std::int64_t b = blockIdx.z, h = blockIdx.y, kv_head = h / (op.shape.heads / op.shape.kv_heads);
  copy_tile<kD>(tiles.queries, op.q, first_query, h, b, barriers.queries);
  for (int i = 0; i < count; ++i) {
    const int stage = i % kStages, before = 1 - parity_of(i);
    wait_for_phase(&barriers.free_keys[stage], before);
    copy_tile<kD>(tiles.keys(stage), op.k, first_key + i * kKeys, kv_head, b, barriers.keys[stage]);
    wait_for_phase(&barriers.free_values[stage], before);
    copy_tile<kD>(tiles.values(stage), op.v, first_key + i * kKeys, kv_head, b, barriers.values[stage]);
  }
}

/// Starts the scores of a warpgroup's 64 queries with a tile of keys.
template <class T, int kD>
__device__ __forceinline__ void start_scores(float (&scores)[kKeys / 8][4], unsigned queries, unsigned keys) {
  fence_products();
#pragma unroll
  for (int k = 0; k < kD / 16; ++k) {
    const unsigned offset = k / 4 * kBox + k % 4 * kSixteenColumns;
    start_product<T>(scores, matrix_at(queries + offset), matrix_at(keys + offset), k > 0);
  }
  commit_products();
}

/// Starts sums += weights values.
template <class T, int kD>
__device__ __forceinline__ void start_sums(float (&sums)[kD / 8][4], const typename Mma<T>::A (&weights)[kKeys / 16], unsigned values) {
  fence_products();
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) start_product_by_rows<T>(sums, weights[k].r, matrix_at(values + k * 2 * kEightRows, kBox));
  commit_products();
}

/// One arrival a warp, all of whose products are over.
__device__ __forceinline__ void set_free(Mbarrier& barrier) {
  if (threadIdx.x % kWarp == 0) arrive(&barrier);
}

template <class T, int kD>
__device__ void compute(const Operands<T>& op, const HopperTiles<kD>& tiles, int first_query, int first_key, int count) {
  const AttentionShape& shape = op.shape;
  const std::int64_t b = blockIdx.z, h = blockIdx.y;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, own = thread / kWarpgroup - 1;
  const int first_row = first_query + own * 64 + thread % kWarpgroup / kWarp * kMmaRows + lane / 4;
  Barriers& barriers = tiles.barriers();
  RowState rows[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) rows[r].visible = visible_to(shape, b, first_row + 8 * r);
  float sums[kD / 8][4] = {};
  if (count > 0) {
    const unsigned queries = shared_address(tiles.queries) + own * 8 * kEightRows;
    float scores[kKeys / 8][4], factors[2];
    typename Mma<T>::A weights[kKeys / 16];
    const auto pack_weights = [&] {
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k) weights[k] = Mma<T>::from_result(scores, k);
    };
    wait_for_phase(&barriers.queries, 0);
    wait_for_phase(&barriers.keys[0], 0);
    start_scores<T, kD>(scores, queries, shared_address(tiles.keys(0)));
    wait_for_products<0>();
    keep_after_wait(scores);
    set_free(barriers.free_keys[0]);
#pragma unroll
    for (int r = 0; r < 2; ++r) factors[r] = softmax_row(scores, r, rows[r], first_key, op.scale_log2);
    pack_weights();
    // Turns: barrier 1 + w is where warpgroup w waits for the other. The first has its first turn from the second.
    if (own == 1 && count > 1) arrive_at(1, 2 * kWarpgroup);
    for (int i = 1; i < count; ++i) {
      const int stage = i % kStages, last = (i - 1) % kStages;
      wait_for_phase(&barriers.keys[stage], parity_of(i));
      wait_at(1 + own, 2 * kWarpgroup);
      start_scores<T, kD>(scores, queries, shared_address(tiles.keys(stage)));
      wait_for_phase(&barriers.values[last], parity_of(i - 1));
      start_sums<T, kD>(sums, weights, shared_address(tiles.values(last)));
      if (own == 0 || i + 1 < count) arrive_at(2 - own, 2 * kWarpgroup);
      wait_for_products<1>();
      keep_after_wait(scores);
      set_free(barriers.free_keys[stage]);
#pragma unroll
      for (int r = 0; r < 2; ++r) factors[r] = softmax_row(scores, r, rows[r], first_key + i * kKeys, op.scale_log2);
      wait_for_products<0>();
      keep_after_wait(sums);
      set_free(barriers.free_values[last]);
#pragma unroll
      for (auto& sum : sums) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[j] *= factors[j / 2];
      }
      pack_weights();
    }
    const int last = (count - 1) % kStages;
    wait_for_phase(&barriers.values[last], parity_of(count - 1));
    start_sums<T, kD>(sums, weights, shared_address(tiles.values(last)));
    wait_for_products<0>();
    keep_after_wait(sums);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) write_row<true>(op.o, op.lse, shape, b, h, first_row + 8 * r, rows[r], sums, r);
}

template <class T, int kD>
__global__ void __launch_bounds__(kThreads, 1) attention_wgmma(const __grid_constant__ Operands<T> op) {
  const HopperTiles<kD> tiles;
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;
  const Visible some = visible_to_some(op.shape, blockIdx.z, first_query, kQueries);
  const int first_key = some.begin < some.end ? some.begin / kKeys * kKeys : 0;
  const int count = some.begin < some.end ? (some.end - first_key + kKeys - 1) / kKeys : 0;
  if (threadIdx.x == 0) {
    Barriers& barriers = tiles.barriers();
    make_mbarrier(&barriers.queries, 1);
    for (int i = 0; i < kStages; ++i) {
      make_mbarrier(&barriers.keys[i], 1);
      make_mbarrier(&barriers.values[i], 1);
      make_mbarrier(&barriers.free_keys[i], kConsumers * kWarpgroup / kWarp);
      make_mbarrier(&barriers.free_values[i], kConsumers * kWarpgroup / kWarp);
    }
    make_mbarriers_seen();
  }
  __syncthreads();  // the barriers are there
  if (threadIdx.x < kWarpgroup) {
    give_registers<40>();
    if (threadIdx.x == 0 && count > 0) copy_tiles<T, kD>(op, tiles, first_query, first_key, count);
  } else {
    take_registers<232>();
    compute<T, kD>(op, tiles, first_query, first_key, count);
  }
}

template <class T>
TensorMap map_of(const Heads<const T>& heads, const ConstTensor& t) {
  return make_tensor_map(dtype_of<T>, heads.base, {t.size(3), t.size(2), t.size(1), t.size(0)},
                         {heads.head_stride, heads.row_stride, heads.batch_stride}, kKeys);
}

/// Whether copies can be made of it: rows at multiples of 16 bytes, sizes and strides that fit a map.
template <class T>
bool has_map(const ConstTensor& t) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  bool good = Heads<const T>(t).aligned;
  for (int i = 0; i < 3; ++i) good = good && t.size(i) > 0 && t.stride(i) > 0 && t.stride(i) * 2 < kMostBytes;
  return good;
}

template <class T, int kD>
bool launch_width(Cuda& cuda, const Attention& op) {
  const Heads<T> o(op.o);
  if (!has_map<T>(op.q) || !has_map<T>(op.k) || !has_map<T>(op.v) || !o.aligned) return false;
  const Operands<T> operands{.q = map_of(Heads<const T>(op.q), op.q),
                             .k = map_of(Heads<const T>(op.k), op.k),
                             .v = map_of(Heads<const T>(op.v), op.v),
                             .o = o,
                             .lse = op.lse.data<float>(),
                             .shape = AttentionShape(op),
                             .scale_log2 = static_cast<float>(op.scale) * kLog2E};
  const Grid grid{.x = divide_up(op.q.size(1), kQueries),
                  .y = op.q.size(2),
                  .z = op.q.size(0),
                  .threads = kThreads,
                  .shared = HopperTiles<kD>::kShared};
  launch<attention_wgmma<T, kD>>(cuda, grid, operands);
  return true;
}

template <class T>
bool launch_type(Cuda& cuda, const Attention& op) {
  if (op.q.size(3) <= kBoxColumns) return launch_width<T, kBoxColumns>(cuda, op);
  return op.q.size(3) <= 2 * kBoxColumns && launch_width<T, 2 * kBoxColumns>(cuda, op);
}

}  // namespace

bool launch_attention_wgmma(Cuda& cuda, const Attention& op) {
  if (op.q.dtype() == DType::BF16) return launch_type<bf16>(cuda, op);
  return op.q.dtype() == DType::F16 && launch_type<f16>(cuda, op);
}

}  // namespace oxrse::OXRSE_GPU

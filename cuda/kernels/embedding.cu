#include "cuda/kernels/kernels.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"

// Forward: one block a row, packs of 16 bytes.
//
// Backward needs the rows of dy that have the same id, in order, and no atomics, so that the bits are the same in every run. A block owns
// kTokens rows of the table and one column a thread. It looks through all ids, kThreads at a time, and adds the rows that are its own in
// the order of n; nobody else writes there. Every block reads all ids (4 bytes a row, from L2): V / 64 * N * 4 bytes. It loses when most of
// the batch is a few tokens, because one block then adds up nearly everything.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kTokens = 64;

template <class T>
__global__ void gather(Rows<T> y, Rows<const T> table, const std::int32_t* ids, bool add) {
  const std::int64_t n = blockIdx.x, columns = y.columns;
  const T* row = table[ids[n]];
  for (std::int64_t c = std::int64_t{threadIdx.x} * kPack<T>; c < columns; c += std::int64_t{blockDim.x} * kPack<T>) {
    Pack<T> p = load(row, c, columns, table.aligned);
    if (add) {
      const Pack<T> before = load(static_cast<const T*>(y[n]), c, columns, y.aligned);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) p.v[i] += before.v[i];
    }
    store(y[n], c, columns, y.aligned, p);
  }
}

/// The rows of a chunk of ids that belong to this block, in order.
struct Matches {
  int count[kWarps];  // found by each warp
  std::int32_t row[kThreads];
};

/// Lists the rows [first, first + kThreads) whose id is in [begin, begin + kTokens); returns how many there are. All threads must come.
__device__ int find_matches(Matches& matches, const std::int32_t* ids, std::int64_t count, std::int64_t first, std::int64_t begin) {
  const std::int64_t n = first + threadIdx.x;
  const bool match = n < count && ids[n] >= begin && ids[n] < begin + kTokens;
  const unsigned votes = __ballot_sync(kAllLanes, match);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (threadIdx.x % kWarp == 0) matches.count[warp] = __popc(votes);
  __syncthreads();
  int before = 0, all = 0;
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) before += matches.count[i];
    all += matches.count[i];
  }
  const unsigned below = (1U << threadIdx.x % kWarp) - 1U;
  if (match) matches.row[before + __popc(votes & below)] = static_cast<std::int32_t>(threadIdx.x);
  __syncthreads();
  return all;
}

template <class T>
__global__ void scatter(Rows<float> dtable, Rows<const T> dy, const std::int32_t* ids, bool assign) {
  Matches& matches = *shared_memory<Matches>();
  const std::int64_t begin = std::int64_t{blockIdx.x} * kTokens;
  const std::int64_t c = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  const bool writes = c < dtable.columns;
  if (assign && writes) {
    for (std::int64_t v = begin; v < begin + kTokens && v < dtable.count; ++v) dtable[v][c] = 0;
  }
  for (std::int64_t first = 0; first < dy.count; first += kThreads) {
    // No barrier at the end: the list is written again after the first one in here.
    const int found = find_matches(matches, ids, dy.count, first, begin);
    for (int i = 0; i < found && writes; ++i) {
      const std::int64_t n = first + matches.row[i];
      dtable[ids[n]][c] += widen(dy[n][c]);
    }
  }
}

}  // namespace

void launch(Cuda& cuda, const Embedding& op) {
  check_readable_data(cuda, op);
  visit_compute(op.y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<gather<T>>(cuda, {.x = op.y.size(0), .threads = threads_for_row<T>(op.y.size(1))}, Rows<T>(op.y), Rows<const T>(op.table),
                      op.ids.data<std::int32_t>(), op.to_y == Write::Add);
  });
}

void launch(Cuda& cuda, const Embedding::Backward& op) {
  check_readable_data(cuda, op);
  visit_compute(op.dy.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Grid grid{.x = divide_up(op.dtable.size(0), kTokens),
                    .y = divide_up(op.dtable.size(1), kThreads),
                    .threads = kThreads,
                    .shared = sizeof(Matches)};
    launch<scatter<T>>(cuda, grid, Rows<float>(op.dtable), Rows<const T>(op.dy), op.ids.data<std::int32_t>(),
                       op.to_dtable == Write::Assign);
  });
}

}  // namespace oxrse::OXRSE_GPU

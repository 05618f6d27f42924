#include <algorithm>
#include <limits>

#include "cuda/kernels/kernels.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

// One block a row, one draw of four random words a thread and turn. The ten rounds of Philox take longer than four elements of memory
// traffic in bf16 on today's GPUs: this kernel is limited by integer arithmetic, and fusing it into a neighbour would hide half of it.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr std::int64_t kWords = 4;  // of a draw

template <class T>
__global__ void dropout(Rows<T> y, Rows<const T> x, Rows<const T> residual, RandomStream random, std::uint32_t dropped, float scale,
                        std::int64_t first_row) {
  const std::int64_t n = blockIdx.x, first = (first_row + n) * x.columns;
  const T* added = residual.base != nullptr ? residual[n] : nullptr;
  const std::int64_t last_draw = (first + x.columns - 1) / kWords;
  for (std::int64_t draw = first / kWords + threadIdx.x; draw <= last_draw; draw += blockDim.x) {
    const auto words = random.words(static_cast<std::uint64_t>(draw));
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const std::int64_t c = draw * kWords + i - first;
      if (c < 0 || c >= x.columns) continue;
      const float kept = words[i] >= dropped ? widen(x[n][c]) * scale : 0.0F;
      y[n][c] = narrow<T>(added != nullptr ? widen(added[c]) + kept : kept);
    }
  }
}

}  // namespace

void launch(Cuda& cuda, const Dropout& op) {
  // Element e is dropped where its word is below p * 2^32.
  const auto dropped = static_cast<std::uint32_t>(std::min(op.p * 0x1p32, double{std::numeric_limits<std::uint32_t>::max()}));
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Grid grid{.x = op.x.size(1) == 0 ? 0 : op.x.size(0), .threads = threads_for_row<T>(op.x.size(1))};
    launch<dropout<T>>(cuda, grid, Rows<T>(op.y), Rows<const T>(op.x), Rows<const T>(op.residual), op.random, dropped, 1 / (1 - op.p),
                       op.first_row);
  });
}

}  // namespace oxrse::OXRSE_GPU

#include <limits>

#include "cuda/kernels/kernels.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"

// One block a row. The first pass keeps a running maximum and the sum of exponentials relative to it (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018), the second writes the gradient: logits are read twice, the second time from L2 as long as the
// rows in flight fit there (132 blocks of 50k logits in bf16: 13 MB).
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr int kMostThreads = 512;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// What exponentials are relative to: the maximum, or 0 where there is none.
__device__ float base_of(float maximum) { return maximum == kNothing ? 0.0F : maximum; }

template <class T>
struct Operands {
  float* loss;
  Rows<T> dlogits;
  Rows<const T> logits;
  const std::int32_t* targets;
  std::int64_t vocab, columns;
  float scale;
};

/// Writes f(c, logit) to all columns below vocab and 0 to the padding.
template <class T, class F>
__device__ void write_row(const Operands<T>& op, std::int64_t n, bool read, F f) {
  const std::int64_t step = std::int64_t{blockDim.x} * kPack<T>;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kPack<T>; c < op.columns; c += step) {
    Pack<T> p{};
    if (read) p = load(op.logits[n], c, op.vocab, op.logits.aligned);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) p.v[i] = c + i < op.vocab ? f(c + i, p.v[i]) : 0.0F;
    store(op.dlogits[n], c, op.columns, op.dlogits.aligned, p);
  }
}

template <class T>
__global__ void softmax_loss(Operands<T> op) {
  float* partials = shared_memory<float>();
  const std::int64_t n = blockIdx.x, step = std::int64_t{blockDim.x} * kPack<T>;
  const std::int32_t target = op.targets[n];
  const bool has_gradient = op.dlogits.base != nullptr;
  if (target == kIgnoredTarget) {
    if (threadIdx.x == 0) op.loss[n] = 0;
    if (has_gradient) write_row(op, n, false, [](std::int64_t, float) { return 0.0F; });
    return;
  }
  float maximum = kNothing, sum = 0;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kPack<T>; c < op.vocab; c += step) {
    const Pack<T> p = load(op.logits[n], c, op.vocab, op.logits.aligned);
    float largest = maximum;
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      if (c + i < op.vocab) largest = Larger()(p.v[i], largest);
    }
    sum *= expf(maximum - base_of(largest));  // 0 where there was none: the sum was 0, too
    maximum = largest;
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      if (c + i < op.vocab) sum += expf(p.v[i] - base_of(maximum));
    }
  }
  const float base = base_of(reduce_block(maximum, Larger(), partials));
  // A thread whose logits are all -inf has a sum of 0, whatever it is relative to.
  sum = reduce_block(maximum == kNothing ? sum : sum * expf(maximum - base), Plus(), partials);
  const float at = widen(op.logits[n][target]);
  __syncthreads();    // dlogits may be logits: all have read the target's
  if (sum == 0.0F) {  // every logit is -inf
    if (threadIdx.x == 0) op.loss[n] = logf(static_cast<float>(op.vocab));
    const float share = 1.0F / static_cast<float>(op.vocab);
    if (has_gradient) {
      write_row(op, n, false, [&](std::int64_t c, float) { return op.scale * (c == target ? share - 1.0F : share); });
    }
    return;
  }
  if (threadIdx.x == 0) op.loss[n] = logf(sum) + (base - at);
  if (!has_gradient) return;
  const float factor = op.scale / sum;
  write_row(op, n, true, [&](std::int64_t c, float x) {
    const float share = factor * expf(x - base);
    return c == target ? share - op.scale : share;
  });
}

}  // namespace

void launch(Cuda& cuda, const CrossEntropy& op) {
  check_readable_data(cuda, op);
  visit_compute(op.logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Operands<T> operands{.loss = op.loss.data<float>(),
                               .dlogits = Rows<T>(op.dlogits),
                               .logits = Rows<const T>(op.logits),
                               .targets = op.targets.data<std::int32_t>(),
                               .vocab = op.vocab,
                               .columns = op.logits.size(1),
                               .scale = static_cast<float>(op.scale)};
    const Grid grid{.x = op.logits.size(0), .threads = threads_for_row<T>(op.vocab, kMostThreads), .shared = kWarp * sizeof(float)};
    launch<softmax_loss<T>>(cuda, grid, operands);
  });
}

}  // namespace oxrse::OXRSE_GPU

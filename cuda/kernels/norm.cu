#include "cuda/kernels/kernels.h"
#include "cuda/kernels/tensor_list.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"

// The norm of the gradient: every block adds up the squares of a tile in f64, a second launch adds up the tiles of each tensor in order.
// Memory is the limit of the first; the f64 additions, one an element, are hidden behind it where the GPU has f64 units (1/64 of the f32
// rate, as on consumer GPUs, is not enough: there a compensated f32 sum would be faster).
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr int kThreads = 256;
constexpr std::size_t kShared = kThreads / kWarp * sizeof(double);

struct Input {
  const std::byte* data = nullptr;
  DType type = DType::None;
  std::int64_t count = 0;
};

__device__ double element(const Input& input, std::int64_t i) {
  switch (input.type) {
    case DType::F64: return reinterpret_cast<const double*>(input.data)[i];
    case DType::F32: return reinterpret_cast<const float*>(input.data)[i];
    case DType::BF16: return widen(reinterpret_cast<const bf16*>(input.data)[i]);
    default: return widen(reinterpret_cast<const f16*>(input.data)[i]);
  }
}

__global__ void square_tiles(double* partials, TensorList<Input> list) {
  double sum = 0;
  for_tile(list, [&](const Input& input, std::int64_t i) {
    const double v = element(input, i);
    sum += v * v;
  });
  sum = reduce_block(sum, Plus(), shared_memory<double>());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void add_up_tiles(double* sums, const double* partials, TensorList<Input> list) {
  const std::int64_t begin = list.first_tile[blockIdx.x], end = list.first_tile[blockIdx.x + 1];
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) sum += partials[i];
  sum = reduce_block(sum, Plus(), shared_memory<double>());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void clip_factor(double* control, const double* sums, std::int64_t count, double unscale, double clip) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += sums[i];
  const double norm = sqrt(sum) * unscale;
  const bool apply = norm - norm == 0;  // neither infinite nor NaN
  const double clipped = clip / (norm + 1e-6);
  control[kNorm] = norm;
  control[kFactor] = unscale * (clip > 0 && !(clipped >= 1) ? clipped : 1.0);
  control[kApply] = apply ? 1 : 0;
  control[kUpdates] += apply ? 1 : 0;
}

}  // namespace

void launch(Cuda& cuda, const SumSquares& op) {
  auto* sums = op.sums.data<double>();
  TensorList<Input> list;
  const auto flush = [&] {
    auto* partials = static_cast<double*>(cuda.scratch(static_cast<std::size_t>(list.tiles()) * sizeof(double)));
    launch<square_tiles>(cuda, {.x = list.tiles(), .threads = kThreads, .shared = kShared}, partials, list);
    launch<add_up_tiles>(cuda, {.x = list.count, .threads = kThreads, .shared = kShared}, sums, partials, list);
    sums += list.count;
    list = {};
  };
  for (const ConstTensor& t : op.tensors) {
    list.add({t.address(), t.dtype(), t.count()});
    if (list.full()) flush();
  }
  flush();
}

void launch(Cuda& cuda, const ClipFactor& op) {
  launch<clip_factor>(cuda, {.x = 1, .threads = 1}, op.control.data<double>(), op.sums.data<double>(), op.sums.count(), op.unscale,
                      op.clip);
}

}  // namespace oxrse::OXRSE_GPU

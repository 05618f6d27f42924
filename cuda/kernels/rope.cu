#include "cuda/kernels/kernels.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

// One block a row of all heads, one pair a thread and turn, in place: read once, written once. The angles of a row are read once from
// memory and by its other heads from the cache.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr int kThreads = 256;

template <class A>
__global__ void fill_table(Rows<A> table, double theta) {
  const std::int64_t half = table.columns / 2, i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= table.count * half) return;
  const std::int64_t t = i / half, column = i % half;
  const double angle = static_cast<double>(t) * pow(theta, -static_cast<double>(column) / static_cast<double>(half));
  table[t][column] = static_cast<A>(cos(angle));
  table[t][half + column] = static_cast<A>(sin(angle));
}

template <class T>
__global__ void rotate(Rows<T> x, const std::int32_t* positions, Rows<const float> table, float sign) {
  const std::int64_t n = blockIdx.x, half = x.columns / 2;
  const float* angles = table[positions[n]];
  for (std::int64_t i = threadIdx.x; i < x.heads * half; i += blockDim.x) {
    T* pair = x[n * x.heads + i / half] + i % half;
    const float a = widen(pair[0]), b = widen(pair[half]);
    const float cosine = angles[i % half], sine = sign * angles[half + i % half];
    pair[0] = narrow<T>(a * cosine - b * sine);
    pair[half] = narrow<T>(a * sine + b * cosine);
  }
}

template <class A>
void launch_fill_table(Cuda& cuda, const RopeTable& op) {
  const std::int64_t pairs = op.table.count() / 2;
  launch<fill_table<A>>(cuda, {.x = divide_up(pairs, kThreads), .threads = kThreads}, Rows<A>(op.table), op.theta);
}

}  // namespace

void launch(Cuda& cuda, const RopeTable& op) {
  if (op.table.dtype() == DType::F64) {
    launch_fill_table<double>(cuda, op);
  } else {
    launch_fill_table<float>(cuda, op);
  }
}

void launch(Cuda& cuda, const Rope& op) {
  check_readable_data(cuda, op);
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Grid grid{.x = op.x.size(2) == 0 ? 0 : op.x.size(0), .threads = kThreads};
    launch<rotate<T>>(cuda, grid, Rows<T>(op.x), op.positions.data<std::int32_t>(), Rows<const float>(op.table), op.inverse ? -1.0F : 1.0F);
  });
}

}  // namespace oxrse::OXRSE_GPU

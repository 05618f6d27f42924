#include <numbers>

#include "cuda/kernels/kernels.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"

// One pack of 16 bytes a thread: memory is the limit. A sum takes two launches: tiles of fixed size, then their sums in one block.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr int kThreads = 256;
constexpr std::int64_t kTile = 16384;  // elements a block adds up

/// Contiguous elements of any shape.
template <class T>
struct Flat {
  T* data;
  std::int64_t count;
  bool aligned;

  template <class Byte>
  explicit Flat(const BasicTensor<Byte>& t)
      : data(t.template data<std::remove_const_t<T>>()), count(t.count()), aligned(reinterpret_cast<std::uintptr_t>(data) % 16 == 0) {}
};

/// The first of the kEach elements of this thread.
template <int kEach>
__device__ std::int64_t first_element() {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kEach;
}

template <class T>
__global__ void fill(Flat<T> y, double value) {
  Pack<T> p;
  const T rounded = narrow<T>(value);
  for (auto& v : p.v) v = widen(rounded);
  const std::int64_t i = first_element<kPack<T>>();
  if (i < y.count) store(y.data, i, y.count, y.aligned, p);
}

template <class T>
__global__ void fill_normal(Flat<T> y, double mean, double stddev, RandomStream random, std::int64_t first) {
  const std::int64_t i = first_element<1>();
  if (i >= y.count) return;
  const auto words = random.words(static_cast<std::uint64_t>(first + i));
  const double radius = sqrt(-2.0 * log((static_cast<double>(words[0]) + 0.5) * 0x1p-32));
  const double z = radius * cos(2.0 * std::numbers::pi * (static_cast<double>(words[1]) + 0.5) * 0x1p-32);
  y.data[i] = narrow<T>(mean + stddev * z);
}

template <class To, class From>
__global__ void cast(To* y, const From* x, std::int64_t count) {
  const std::int64_t i = first_element<1>();
  if (i < count) y[i] = narrow<To>(widen(x[i]));
}

template <class T>
__global__ void add(Flat<T> y, Flat<const T> a, Flat<const T> b) {
  const std::int64_t i = first_element<kPack<T>>();
  if (i >= y.count) return;
  Pack<T> p = load(a.data, i, y.count, a.aligned);
  const Pack<T> q = load(b.data, i, y.count, b.aligned);
#pragma unroll
  for (int j = 0; j < kPack<T>; ++j) p.v[j] += q.v[j];
  store(y.data, i, y.count, y.aligned, p);
}

template <class T>
__global__ void sum_tiles(double* partials, const T* x, std::int64_t count) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * kTile, end = begin + kTile < count ? begin + kTile : count;
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) sum += static_cast<double>(widen(x[i]));
  sum = reduce_block(sum, Plus(), shared_memory<double>());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void sum_partials(double* result, const double* partials, std::int64_t count, bool add_to) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += partials[i];
  sum = reduce_block(sum, Plus(), shared_memory<double>());
  if (threadIdx.x == 0) *result = add_to ? *result + sum : sum;
}

Grid grid_of(std::int64_t count, int each) { return {.x = divide_up(count, std::int64_t{kThreads} * each), .threads = kThreads}; }

}  // namespace

void launch(Cuda& cuda, const Fill& op) {
  visit_floating(op.y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<fill<T>>(cuda, grid_of(op.y.count(), kPack<T>), Flat<T>(op.y), op.value);
  });
}

void launch(Cuda& cuda, const FillNormal& op) {
  visit_floating(op.y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<fill_normal<T>>(cuda, grid_of(op.y.count(), 1), Flat<T>(op.y), op.mean, op.stddev, op.random, op.first_element);
  });
}

void launch(Cuda& cuda, const Cast& op) {
  visit_floating(op.y.dtype(), [&](auto to) {
    visit_floating(op.x.dtype(), [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      launch<cast<To, From>>(cuda, grid_of(op.y.count(), 1), op.y.data<To>(), op.x.data<From>(), op.y.count());
    });
  });
}

void launch(Cuda& cuda, const Add& op) {
  visit_floating(op.y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<add<T>>(cuda, grid_of(op.y.count(), kPack<T>), Flat<T>(op.y), Flat<const T>(op.a), Flat<const T>(op.b));
  });
}

void launch(Cuda& cuda, const Sum& op) {
  const std::int64_t tiles = divide_up(op.x.count(), kTile);
  auto* partials = static_cast<double*>(cuda.scratch(static_cast<std::size_t>(tiles) * sizeof(double)));
  const std::size_t shared = kThreads / kWarp * sizeof(double);
  visit_floating(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<sum_tiles<T>>(cuda, {.x = tiles, .threads = kThreads, .shared = shared}, partials, op.x.data<T>(), op.x.count());
  });
  launch<sum_partials>(cuda, {.x = 1, .threads = kThreads, .shared = shared}, op.sum.data<double>(), partials, tiles,
                       op.to_sum == Write::Add);
}

}  // namespace oxrse::OXRSE_GPU

#include "cuda/collectives.h"
#include "cuda/instructions.h"
#include "cuda/launch.h"

// Sums of what ranks send each other. Elements begin anywhere, so loads are of one element a thread, side by side in a warp; memory is the
// limit: 3 (add) or 2 (convert) elements a number. It loses to wider loads where elements have 2 bytes and are aligned.
namespace oxrse::OXRSE_GPU {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 4;  // elements a thread, a block apart

/// Calls f(i) for the elements below `count` that are this thread's.
template <class F>
__device__ __forceinline__ void for_elements(std::int64_t count, F f) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads * kEach + threadIdx.x;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const std::int64_t i = first + std::int64_t{j} * kThreads;
    if (i < count) f(i);
  }
}

template <class To, class With, class From>
__global__ void add_vectors(To* to, const With* with, const From* from, std::int64_t count) {
  for_elements(count, [&](std::int64_t i) { to[i] = narrow<To>(widen(with[i]) + widen(from[i])); });
}

template <class To, class From>
__global__ void convert_vector(To* to, const From* from, std::int64_t count) {
  for_elements(count, [&](std::int64_t i) { to[i] = narrow<To>(widen(from[i])); });
}

Grid grid_of(std::int64_t count) { return {.x = divide_up(count, std::int64_t{kThreads} * kEach), .threads = kThreads}; }

/// Calls f with the tag of `type`, which is T or its accumulator.
template <class T, class F>
void visit_one_of(DType type, const F& f) {
  if (type == dtype_of<T>) return f(TypeTag<T>{});
  require(type == accumulator_of(dtype_of<T>), "elements of {} and {} in one sum", name_of(type), name_of(dtype_of<T>));
  f(TypeTag<accumulator_t<T>>{});
}

DType narrower(DType a, DType b) { return size_of(b) < size_of(a) ? b : a; }

}  // namespace

void add(CUstream_st* stream, const Tensor& to, const ConstTensor& with, const ConstTensor& from) {
  visit_floating(narrower(narrower(to.dtype(), with.dtype()), from.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_one_of<T>(to.dtype(), [&](auto to_tag) {
      visit_one_of<T>(with.dtype(), [&](auto with_tag) {
        visit_one_of<T>(from.dtype(), [&](auto from_tag) {
          using To = typename decltype(to_tag)::type;
          using With = typename decltype(with_tag)::type;
          using From = typename decltype(from_tag)::type;
          launch<add_vectors<To, With, From>>({.stream = stream}, grid_of(to.count()), to.data<To>(), with.data<With>(), from.data<From>(),
                                              to.count());
        });
      });
    });
  });
}

void convert(CUstream_st* stream, const Tensor& to, const ConstTensor& from) {
  visit_floating(narrower(to.dtype(), from.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_one_of<T>(to.dtype(), [&](auto to_tag) {
      visit_one_of<T>(from.dtype(), [&](auto from_tag) {
        using To = typename decltype(to_tag)::type;
        using From = typename decltype(from_tag)::type;
        launch<convert_vector<To, From>>({.stream = stream}, grid_of(to.count()), to.data<To>(), from.data<From>(), to.count());
      });
    });
  });
}

}  // namespace oxrse::OXRSE_GPU

#pragma once

#include "cuda/instructions.h"

// Sums and maxima over warps and blocks. The order of additions depends on the number of threads alone.
namespace oxrse::OXRSE_GPU {

struct Plus {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a + b;
  }
};
struct Larger {  // a NaN loses
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a > b ? a : b;
  }
};

/// Two sums that go together.
struct Two {
  float first, second;
};
struct PlusTwo {
  __device__ Two operator()(Two a, Two b) const { return {a.first + b.first, a.second + b.second}; }
};

/// The value of lane (own lane xor `lanes`).
template <class A>
__device__ A exchange(A value, int lanes) {
  return __shfl_xor_sync(kAllLanes, value, lanes);
}
template <>
inline __device__ Two exchange(Two value, int lanes) {
  return {__shfl_xor_sync(kAllLanes, value.first, lanes), __shfl_xor_sync(kAllLanes, value.second, lanes)};
}

/// The reduction over the lanes of a warp, in every lane. All lanes must come.
template <class A, class F>
__device__ A reduce_warp(A value, F f) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) value = f(value, exchange(value, lanes));
  return value;
}

/// The reduction over the block, whose threads are a multiple of a warp, in every thread. `partials`: shared, one a warp; free to be used
/// again on return. All threads must come.
template <class A, class F>
__device__ A reduce_block(A value, F f, A* partials) {
  const int warps = static_cast<int>(blockDim.x) / kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  value = reduce_warp(value, f);
  if (warps == 1) return value;
  if (threadIdx.x % kWarp == 0) partials[warp] = value;
  __syncthreads();
  value = partials[0];
  for (int i = 1; i < warps; ++i) value = f(value, partials[i]);
  __syncthreads();
  return value;
}

}  // namespace oxrse::OXRSE_GPU

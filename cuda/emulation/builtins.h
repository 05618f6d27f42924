#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <source_location>

#include "cuda/emulation/block.h"

// What nvcc provides without an include, for g++: kernels compile as they are, and every thread of a block runs as a fiber.

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): CUDA's names
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

// Set by the scheduler whenever it goes on with a thread.
inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;

inline void __syncthreads(const std::source_location& where = std::source_location::current()) { oxrse::emulation::barrier(where); }

inline void __syncwarp(unsigned mask = 0xffffffffU, const std::source_location& where = std::source_location::current()) {
  oxrse::emulation::sync_warp(mask, where);
}

/// The value of lane (own lane xor `lanes`); T has at most eight bytes.
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, const std::source_location& where = std::source_location::current()) {
  return oxrse::emulation::shuffle(mask, value, oxrse::emulation::lane() ^ lanes, where);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, const std::source_location& where = std::source_location::current()) {
  return oxrse::emulation::shuffle(mask, value, source, where);
}
/// The value of the lane `lanes` below, the own one where there is none.
template <class T>
T __shfl_up_sync(unsigned mask, T value, int lanes, const std::source_location& where = std::source_location::current()) {
  const int own = oxrse::emulation::lane();
  return oxrse::emulation::shuffle(mask, value, own < lanes ? own : own - lanes, where);
}
inline unsigned __ballot_sync(unsigned mask, bool predicate, const std::source_location& where = std::source_location::current()) {
  return oxrse::emulation::ballot(mask, predicate, where);
}

/// Adds to a number that other threads add to as well; returns what it was.
inline float atomicAdd(float* to, float value) { return std::atomic_ref<float>(*to).fetch_add(value, std::memory_order_relaxed); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline float __expf(float x) { return std::exp(x); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

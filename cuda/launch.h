#pragma once

#include <string_view>
#include <utility>

#include "cuda/device.h"
#include "cuda/portable.h"
#include "engine/core/error.h"

namespace oxrse::OXRSE_GPU {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A grid of blocks of `threads` threads, each with `shared` bytes of shared memory.
struct Grid {
  std::int64_t x = 1, y = 1, z = 1;
  int threads = 256;
  std::size_t shared = 0;
};

#ifdef __CUDACC__

/// Throws an Error with the name of the kernel unless `status` is success.
void check(std::string_view kernel, cudaError_t status);

/// Runs `kernel` on `grid`; nothing when the grid is empty. `name` is for errors.
template <class... Parameters, class... Arguments>
void launch(Cuda& cuda, std::string_view name, void (*kernel)(Parameters...), const Grid& grid, Arguments&&... arguments) {
  if (grid.x * grid.y * grid.z == 0) return;
  constexpr std::size_t kWithoutAsking = 48 * 1024;  // more shared memory has to be asked for
  if (grid.shared > kWithoutAsking) {
    check(name, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.shared;
  config.stream = cuda.stream;
  check(name, cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

/// The block's shared memory; 16-byte aligned.
template <class T>
__device__ __forceinline__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

#else

template <class... Parameters, class... Arguments>
void launch(Cuda& cuda, std::string_view name, void (*kernel)(Parameters...), const Grid& grid, Arguments&&... arguments) {
  if (grid.x * grid.y * grid.z == 0) return;
  require(grid.x <= emulation::kMostBlocksX && grid.y <= emulation::kMostBlocksYZ && grid.z <= emulation::kMostBlocksYZ,
          "{}: a grid of {} x {} x {} blocks is too large", name, grid.x, grid.y, grid.z);
  const emulation::Launch config{.kernel = name,
                                 .grid = {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z)},
                                 .threads = static_cast<unsigned>(grid.threads),
                                 .shared = grid.shared,
                                 .order = cuda.order};
  emulation::run(config, [&] { kernel(static_cast<Parameters>(arguments)...); });
}

template <class T>
T* shared_memory() {
  return static_cast<T*>(emulation::shared_memory());
}

#endif

/// Checks ids, positions and targets where the host can read them; a GPU's are checked where they come from.
template <class Op>
void check_readable_data([[maybe_unused]] const Op& op) {
#ifndef __CUDACC__
  check_data(op);
#endif
}

}  // namespace oxrse::OXRSE_GPU

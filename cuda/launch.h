#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "cuda/device.h"
#include "cuda/kernel_name.h"
#include "cuda/portable.h"
#include "engine/core/error.h"

namespace oxrse::OXRSE_GPU {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A grid of blocks of `threads` threads, each with `shared` bytes of shared memory.
struct Grid {
  std::int64_t x = 1, y = 1, z = 1;
  int threads = 256;
  std::size_t shared = 0;

  [[nodiscard]] bool empty() const { return x == 0 || y == 0 || z == 0; }
};

#ifdef __CUDACC__

/// Throws an Error with the name of the kernel in `signature` when no GPU takes such a grid.
void check_grid(std::string_view signature, const Grid& grid);
/// Throws one that also says how much was asked for, unless `status` is success.
void check_shared(std::string_view signature, const Grid& grid, cudaError_t status);
/// Throws an Error with the name of the call, and of the kernel in `signature`, unless `status` is success.
void check_launch(std::string_view call, std::string_view signature, cudaError_t status);

/// A launch as a record, with what the compiler made of the kernel.
LaunchRecord describe(std::string_view signature, const Grid& grid, const void* function);

template <class... Parameters, class... Arguments>
cudaError_t start(const cudaLaunchConfig_t& config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

/// Runs `kKernel` on `grid`; nothing when the grid is empty.
template <auto kKernel, class... Arguments>
void launch(const LaunchTarget& target, const Grid& grid, Arguments&&... arguments) {
  if (grid.empty()) return;
  const std::string_view signature = __PRETTY_FUNCTION__;
  check_grid(signature, grid);
  constexpr std::size_t kWithoutAsking = 48 * 1024;  // more shared memory has to be asked for
  if (grid.shared > kWithoutAsking) {
    check_shared(signature, grid,
                 cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.shared;
  config.stream = target.stream;
  check_launch("cudaLaunchKernelEx", signature, start(config, kKernel, std::forward<Arguments>(arguments)...));
  if (target.launches != nullptr) target.launches->push_back(describe(signature, grid, reinterpret_cast<const void*>(kKernel)));
}

/// The block's shared memory; 16-byte aligned.
template <class T>
__device__ __forceinline__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

#else

/// A launch as a record, with what cuda/resources.txt says of the kernel.
LaunchRecord describe(std::string_view kernel, const Grid& grid);

/// At once, or where the device has a stream when its turn comes.
template <class... Parameters, class... Arguments>
void start(CUstream_st* stream, const emulation::Launch& config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  auto run = [config, kernel, values = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
    emulation::run(config, [&] { std::apply(kernel, values); });
  };
  if (stream == nullptr) return run();
  emulation::enqueue(*stream, std::move(run));
}

template <auto kKernel, class... Arguments>
void launch(const LaunchTarget& target, const Grid& grid, Arguments&&... arguments) {
  if (grid.empty()) return;
  static const std::string name = cuda::kernel_name(__PRETTY_FUNCTION__);
  require(grid.x <= emulation::kMostBlocksX && grid.y <= emulation::kMostBlocksYZ && grid.z <= emulation::kMostBlocksYZ,
          "{}: a grid of {} x {} x {} blocks is too large", name, grid.x, grid.y, grid.z);
  const emulation::Launch config{.kernel = name,
                                 .grid = {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z)},
                                 .threads = static_cast<unsigned>(grid.threads),
                                 .shared = grid.shared,
                                 .order = target.order};
  start(target.stream, config, kKernel, std::forward<Arguments>(arguments)...);
  if (target.launches != nullptr) target.launches->push_back(describe(name, grid));
}

template <class T>
T* shared_memory() {
  return static_cast<T*>(emulation::shared_memory());
}

#endif

/// Checks ids, positions and targets where the host can read them now; with a stream they are checked where they come from.
template <class Op>
void check_readable_data(const Cuda& cuda, const Op& op) {
  if (cuda.stream == nullptr) check_data(op);
}

}  // namespace oxrse::OXRSE_GPU

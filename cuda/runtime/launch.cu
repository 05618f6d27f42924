#include "cuda/launch.h"
#include "cuda/runtime/error.h"

namespace oxrse::cuda {

void check_grid(std::string_view signature, const Grid& grid) {
  constexpr std::int64_t kMostX = (std::int64_t{1} << 31) - 1, kMostYZ = 65535;
  require(grid.x <= kMostX && grid.y <= kMostYZ && grid.z <= kMostYZ, "{}: a grid of {} x {} x {} blocks is too large",
          kernel_name(signature), grid.x, grid.y, grid.z);
}

void check_shared(std::string_view signature, const Grid& grid, cudaError_t status) {
  if (status == cudaSuccess) return;
  throw DeviceError(
      fmt::format("{} needs {:.0f} KiB of shared memory a block, which this GPU may not have (cudaFuncSetAttribute: {}): take "
                  "narrower heads, or bf16 instead of f32",
                  kernel_name(signature), static_cast<double>(grid.shared) / 1024, cudaGetErrorString(status)));
}

void check_launch(std::string_view call, std::string_view signature, cudaError_t status) {
  if (status != cudaSuccess) check(call, kernel_name(signature), status);
}

LaunchRecord describe(std::string_view signature, const Grid& grid, const void* function) {
  cudaFuncAttributes attributes{};
  check_launch("cudaFuncGetAttributes", signature, cudaFuncGetAttributes(&attributes, function));
  return {.kernel = kernel_name(signature),
          .threads = grid.threads,
          .shared = grid.shared,
          .registers = attributes.numRegs,
          .local = static_cast<int>(attributes.localSizeBytes)};
}

}  // namespace oxrse::cuda

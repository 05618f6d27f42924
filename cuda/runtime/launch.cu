#include "cuda/launch.h"
#include "cuda/runtime/error.h"

namespace oxrse::cuda {

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

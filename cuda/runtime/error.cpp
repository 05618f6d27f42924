#include "cuda/runtime/error.h"

#include <string>

#include "engine/core/device.h"

namespace oxrse::cuda {

void check(std::string_view call, std::string_view about, cudaError_t status) {
  if (status == cudaSuccess) return;
  throw DeviceError(
      fmt::format("{}{}{}: {} ({})", call, about.empty() ? "" : " of ", about, cudaGetErrorString(status), cudaGetErrorName(status)));
}

}  // namespace oxrse::cuda

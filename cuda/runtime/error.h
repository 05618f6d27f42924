#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace oxrse::cuda {

/// Throws a DeviceError with the name of the call, what it was about and what CUDA says, unless `status` is success.
void check(std::string_view call, std::string_view about, cudaError_t status);

}  // namespace oxrse::cuda

#include "cuda/launch.h"

namespace oxrse::OXRSE_GPU {

void check(std::string_view kernel, cudaError_t status) {
  require(status == cudaSuccess, "kernel {}: {}", kernel, cudaGetErrorString(status));
}

}  // namespace oxrse::OXRSE_GPU

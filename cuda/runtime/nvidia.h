#pragma once

#include "cuda/runtime/api.h"

namespace oxrse {
struct KernelTable;
}

namespace oxrse::cuda {

/// CUDA's runtime, cuBLASLt and NVTX; only in builds with the CUDA toolkit.
Api& nvidia_api();

/// The kernels that nvcc made.
const KernelTable& kernel_table();

}  // namespace oxrse::cuda

#pragma once

// What kernels are written against: CUDA's own headers under nvcc, their emulation under g++. Kernels are compiled by both, each into a
// device of its own, so everything that launches is in a namespace named after it.

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#include "cuda/emulation/builtins.h"
#endif

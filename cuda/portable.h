#pragma once

// What kernels are written against: CUDA's own headers under nvcc, their emulation under g++. Kernels are compiled by both, each into a
// device of its own, and both may be in one program: everything they are made of is in namespace OXRSE_GPU, which is named after the
// device.

#ifdef __CUDACC__
#define OXRSE_GPU cuda
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#define OXRSE_GPU cuda_emulated
#include "cuda/emulation/builtins.h"
#endif

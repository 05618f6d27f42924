#pragma once

#include "engine/core/tensor.h"

struct CUstream_st;  // what a cudaStream_t points to

// What collectives on GPUs need besides transfers, on a stream of the calling thread's device: comm/transport/nccl.h, DeviceKernels.
namespace oxrse {
namespace cuda {

/// to = with + from, added in f32 (f64 for f64) and rounded once. Contiguous vectors of one length and of types T or its accumulator, in
/// any combination; `to` may be `with` or `from`.
void add(CUstream_st* stream, const Tensor& to, const ConstTensor& with, const ConstTensor& from);
/// to = from, from T to its accumulator or back.
void convert(CUstream_st* stream, const Tensor& to, const ConstTensor& from);

/// The two above, null in a build without CUDA.
struct CollectiveKernels {
  decltype(&cuda::add) add = nullptr;
  decltype(&cuda::convert) convert = nullptr;
};
CollectiveKernels collective_kernels();

}  // namespace cuda

/// The same kernels emulated on the CPU: without a stream they have ended when the calls return.
namespace cuda_emulated {

void add(CUstream_st* stream, const Tensor& to, const ConstTensor& with, const ConstTensor& from);
void convert(CUstream_st* stream, const Tensor& to, const ConstTensor& from);

}  // namespace cuda_emulated
}  // namespace oxrse

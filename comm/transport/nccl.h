#pragma once

#include <memory>
#include <string>

#include "comm/links.h"
#include "engine/core/tensor.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace oxrse::comm {

/// The kernels that sums on a GPU need, launched on a stream of the calling thread's device. Tensors are contiguous vectors of one length;
/// their types are T or its accumulator, in any combination.
struct DeviceKernels {
  /// to = with + from, added in the accumulator type and rounded once; `to` may be `with`.
  void (*add)(CUstream_st* stream, const Tensor& to, const ConstTensor& with, const ConstTensor& from) = nullptr;
  /// to = from, converted.
  void (*convert)(CUstream_st* stream, const Tensor& to, const ConstTensor& from) = nullptr;
};

/// Gives the ranks their GPUs, the one with the number of the rank on its machine or the only one that it sees, and connects these by NCCL:
/// from here on `ranks` take operands in their memory. Called on all ranks. An Error, the same on all, when a rank has no GPU or two have
/// the same one; one that names the call when CUDA or NCCL fail.
void connect_nccl(Communicator& ranks, const LocalRank& local, const DeviceKernels& kernels);

/// "built in: 2.28.9" or "left out: why".
std::string nccl_status();

}  // namespace oxrse::comm

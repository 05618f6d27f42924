#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/core/context.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace oxrse {

struct KernelTable;

/// A GPU, or its emulation on the CPU: where kernels are launched, and memory for partial results of one launch.
struct Cuda {
  Cuda(std::string_view device_name, const KernelTable& table) : name(device_name), kernels(&table) {}
  virtual ~Cuda() = default;
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  std::string_view name;          // as in run.device
  const KernelTable* kernels;     // cuda/kernels/table.h
  std::uint64_t order = 0;        // emulated: seed of the order in which blocks and threads run; 0: ascending
  CUstream_st* stream = nullptr;  // on a GPU: where kernels go

  /// Memory for partial results of one launch, aligned to 256 bytes. What an earlier call returned is no longer valid.
  virtual void* scratch(std::size_t bytes) = 0;
};

}  // namespace oxrse

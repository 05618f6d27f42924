#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

#include "engine/core/context.h"

namespace oxrse {

/// The emulated GPU: its memory is the host's and its kernels have ended when `launch` returns.
struct Cuda {
  std::string_view name = "cuda-emulated";
  std::uint64_t order = 0;  // seed of the order in which blocks and threads run; 0: ascending

#ifdef __CUDACC__
  cudaStream_t stream = nullptr;
#endif

  /// Memory for partial results of one launch, aligned to 256 bytes. What an earlier call returned is no longer valid.
  void* scratch(std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace oxrse

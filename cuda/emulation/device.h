#pragma once

#include <memory>

#include "cuda/device.h"

namespace oxrse::cuda_emulated {

/// The emulated GPU: its memory is the host's and its kernels have ended when `launch` returns.
class Device : public Cuda {
 public:
  Device();
  void* scratch(std::size_t bytes) override;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> scratch_;
};

}  // namespace oxrse::cuda_emulated

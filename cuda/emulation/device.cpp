#include "cuda/emulation/device.h"

#include <cstring>
#include <new>

#include "cuda/kernels/table.h"

namespace oxrse::cuda_emulated {
namespace {

constexpr std::align_val_t kAlignment{256};  // what cudaMalloc gives
constexpr int kPoison = 0xff;                // NaN: what is read before it is written shows

}  // namespace

Device::Device() : Cuda("cuda-emulated", kernel_table()) {}

void Device::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

/// Memory of exactly this size for every call, so that AddressSanitizer sees what reaches past it.
void* Device::scratch(std::size_t bytes) {
  scratch_.reset();
  if (bytes == 0) return nullptr;
  scratch_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
  std::memset(scratch_.get(), kPoison, bytes);
  return scratch_.get();
}

}  // namespace oxrse::cuda_emulated

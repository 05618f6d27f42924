#include "cuda/device.h"

#include <cstring>
#include <new>

namespace oxrse {
namespace {

constexpr std::align_val_t kAlignment{256};  // what cudaMalloc gives
constexpr int kPoison = 0xff;                // NaN: what is read before it is written shows

}  // namespace

void Cuda::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

void* Cuda::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_.reset();
    scratch_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
    scratch_bytes_ = bytes;
  }
  if (bytes > 0) std::memset(scratch_.get(), kPoison, bytes);
  return scratch_.get();
}

}  // namespace oxrse

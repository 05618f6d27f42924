#include "cuda/emulation/memory.h"

#include <cstring>
#include <new>

namespace oxrse::cuda_emulated {
namespace {

constexpr std::align_val_t kAlignment{256};
constexpr int kPoison = 0xff;

}  // namespace

std::byte* allocate_poisoned(std::size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  std::memset(memory, kPoison, bytes);
  return memory;
}

void free_poisoned(std::byte* memory) noexcept { ::operator delete(memory, kAlignment); }

}  // namespace oxrse::cuda_emulated

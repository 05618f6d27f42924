#include "cuda/emulation/stacks.h"

#include <sys/mman.h>

#include "cuda/emulation/sanitizers.h"
#include "engine/core/error.h"

namespace oxrse::emulation {
namespace {

// Kernels keep fragments of some hundred bytes; sanitizers put zones around each variable.
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr std::size_t kGuardBytes = 4096;

}  // namespace

Stacks::~Stacks() {
  for (const auto& stack : free_) {
    std::byte* const bottom = static_cast<std::byte*>(stack.sp) - kStackBytes;
    end_stack(bottom, kStackBytes);
    ::munmap(bottom - kGuardBytes, kStackBytes + kGuardBytes);
  }
}

boost::context::stack_context Stacks::take() {
  if (!free_.empty()) {
    const auto stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void* memory = ::mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED && ::mprotect(memory, kGuardBytes, PROT_NONE) == 0,
          "no memory for the stack of an emulated CUDA thread: lower the block size or raise the limit of virtual memory (ulimit -v)");
  boost::context::stack_context stack;
  stack.size = kStackBytes;
  stack.sp = static_cast<std::byte*>(memory) + kGuardBytes + kStackBytes;
  return stack;
}

}  // namespace oxrse::emulation

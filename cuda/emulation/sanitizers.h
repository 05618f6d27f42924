#pragma once

#include <cstddef>

// What sanitizers have to be told about fibers. TSan then is a race checker for kernels: fibers count as threads that are ordered by
// barriers and collectives alone, because switches are made known without synchronisation. The files of the scheduler are compiled without
// -fsanitize=thread (cmake/emulation.cmake), so that its own data do not order threads or count as races.

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef OXRSE_EMULATION_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace oxrse::emulation {

/// One end of a switch: the stack and the identity of a fiber, or of the thread that runs them.
class SanitizerFiber {
 public:
  /// `bottom` and `size` of the stack; zero for the thread itself, whose stack is found at the first switch away from it.
  void set_stack(const void* bottom, std::size_t size) {
    bottom_ = bottom;
    size_ = size;
  }
  void create() {
#ifdef OXRSE_EMULATION_TSAN
    if (tsan_ == nullptr) tsan_ = __tsan_create_fiber(0);
#endif
  }
  void use_current() {
#ifdef OXRSE_EMULATION_TSAN
    tsan_ = __tsan_get_current_fiber();
#endif
  }
  void destroy() {
#ifdef OXRSE_EMULATION_TSAN
    if (tsan_ != nullptr) __tsan_destroy_fiber(tsan_);
    tsan_ = nullptr;
#endif
  }

  /// Called on this fiber right before the switch to `to`; `ends` when it will not go on.
  void leave(const SanitizerFiber& to, bool ends = false) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(ends ? nullptr : &fake_stack_, to.bottom_, to.size_);
#endif
#ifdef OXRSE_EMULATION_TSAN
    __tsan_switch_to_fiber(to.tsan_, __tsan_switch_to_fiber_no_sync);
#endif
    static_cast<void>(to);
    static_cast<void>(ends);
  }
  /// Called on this fiber right after a switch from `from`.
  void enter(SanitizerFiber& from) {
#ifdef __SANITIZE_ADDRESS__
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
    if (from.size_ == 0) from.set_stack(bottom, size);
#endif
    static_cast<void>(from);
  }

 private:
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack_ = nullptr;
#endif
#ifdef OXRSE_EMULATION_TSAN
  void* tsan_ = nullptr;
#endif
};

/// Memory was a stack. What ASan knows of frames there would outlive its return to the system, and whoever gets the addresses next would be
/// blamed.
inline void end_stack([[maybe_unused]] void* bottom, [[maybe_unused]] std::size_t size) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(bottom, size);
#endif
}

/// What a thread did before `release` comes before what another does after `acquire` of the same address.
inline void release([[maybe_unused]] void* address) {
#ifdef OXRSE_EMULATION_TSAN
  __tsan_release(address);
#endif
}
inline void acquire([[maybe_unused]] void* address) {
#ifdef OXRSE_EMULATION_TSAN
  __tsan_acquire(address);
#endif
}

}  // namespace oxrse::emulation

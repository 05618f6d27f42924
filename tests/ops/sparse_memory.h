#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "engine/core/device.h"
#include "engine/core/tensor.h"
#include "tests/ops/device.h"

namespace oxrse::test {

/// Memory at many addresses, for views whose offsets pass 2^31. The host's: zeros, of which only the pages that are touched take memory. A
/// device whose kernels cannot reach that has it in its own.
class SparseMemory {
 public:
  explicit SparseMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    if (Device* device = device_under_test().memory; device != nullptr) {
      address_ = device->allocate(bytes);
      return;
    }
    address_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(address_ != MAP_FAILED, "no {} bytes of address space", bytes);
  }
  ~SparseMemory() {
    if (Device* device = device_under_test().memory; device != nullptr) {
      device->release(static_cast<std::byte*>(address_));
    } else {
      ::munmap(address_, bytes_);
    }
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  /// The first `columns` of the last dimension of a tensor of these sizes at the start of the memory.
  [[nodiscard]] Tensor view(DType type, std::initializer_list<std::int64_t> sizes, std::int64_t columns) const {
    return Tensor(static_cast<std::byte*>(address_), type, sizes).slice(-1, 0, columns);
  }

 private:
  std::size_t bytes_;
  void* address_;
};

}  // namespace oxrse::test

#include "cuda/emulation/device.h"

#include <cstring>

#include "cuda/emulation/memory.h"
#include "cuda/emulation/multiply.h"
#include "cuda/kernels/table.h"
#include "cuda/runtime/matmul.h"

namespace oxrse::cuda_emulated {

/// Takes the portable kernels, which other GPUs have too, unless it is told otherwise.
Device::Device() : Cuda("cuda-emulated", kernel_table()) { has_wgmma = true; }

void Device::Free::operator()(std::byte* memory) const { free_poisoned(memory); }

std::byte* Device::allocate(std::int64_t bytes) { return allocate_poisoned(static_cast<std::size_t>(bytes)); }

void Device::release(std::byte* memory) noexcept { free_poisoned(memory); }

void Device::write(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

/// Memory of exactly this size for every call, so that AddressSanitizer sees what reaches past it.
void* Device::scratch(std::size_t bytes) {
  scratch_.reset();
  if (bytes > 0) scratch_.reset(allocate_poisoned(bytes));
  return scratch_.get();
}

/// As the runtime of GPUs hands it to the library, whose place a loop takes. Empty sums are a kernel's, there as here.
void Device::multiply(const Product& product) {
  const cuda::Multiplication multiplication = cuda::multiplication_of(product);
  if (multiplication.k == 0) return kernels->multiply(*this, product);
  reference_product(multiplication, cuda::operands_of(product));
}

bool Device::multiply_activated(const Product& product) {
  const cuda::Multiplication multiplication = cuda::multiplication_of(product);
  if (multiplication.k == 0 || !cuda::takes_auxiliary(multiplication)) return false;
  reference_product(multiplication, cuda::operands_of(product));
  return true;
}

void Device::copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

double Device::seconds_of(const std::function<void()>& /*body*/) { fail("{}: times of an emulation mean nothing", name); }

}  // namespace oxrse::cuda_emulated

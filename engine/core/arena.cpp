#include "engine/core/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

namespace oxrse {
namespace {

// Planned addresses start above zero: arithmetic on a null pointer is undefined, and sanitizers say so.
constexpr std::uintptr_t kPlannedBase = 4096;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment; }

std::byte* map_memory(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, "cannot allocate {:.1f} MiB: {}", static_cast<double>(bytes) / 0x1p20, std::strerror(errno));
  madvise(memory, size, MADV_HUGEPAGE);  // advice only: fewer page faults and TLB misses
  return static_cast<std::byte*>(memory);
}

}  // namespace

std::string_view name_of(Memory kind) {
  switch (kind) {
    case Memory::Weights: return "weights";
    case Memory::Gradients: return "gradients";
    case Memory::Optimizer: return "optimizer";
    case Memory::Activations: return "activations";
    case Memory::Workspace: return "workspace";
  }
  return "unknown";
}

std::int64_t MemoryUse::total() const { return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}); }

Arena Arena::planned() { return {}; }

Arena Arena::allocated(std::int64_t bytes, Device* device) {
  Arena arena;
  arena.capacity_ = aligned(bytes > 0 ? bytes : kAlignment);
  arena.device_ = device;
  arena.memory_ = device != nullptr ? device->allocate(arena.capacity_) : map_memory(arena.capacity_);
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : device_(other.device_),
      memory_(std::exchange(other.memory_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      use_(other.use_),
      peak_(other.peak_) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(memory_, other.memory_);
  std::swap(capacity_, other.capacity_);
  std::swap(use_, other.use_);
  std::swap(peak_, other.peak_);
  return *this;
}

Arena::~Arena() {
  if (memory_ == nullptr) return;
  if (device_ != nullptr) {
    device_->release(memory_);
  } else {
    munmap(memory_, static_cast<std::size_t>(capacity_));
  }
}

Tensor Arena::make(DType type, std::span<const std::int64_t> sizes, Memory kind) {
  const std::int64_t offset = use_.total();
  const std::uintptr_t base = is_planned() ? kPlannedBase : reinterpret_cast<std::uintptr_t>(memory_);
  const Tensor tensor(reinterpret_cast<std::byte*>(base + static_cast<std::uintptr_t>(offset)), type, sizes);
  const std::int64_t bytes = aligned(tensor.bytes());
  require(is_planned() || offset + bytes <= capacity_,
          "the arena of {} bytes has no room for {} more ({} in use): the step differs from its plan", capacity_, bytes, offset);
  require(bytes <= kMostBytes - offset, "{} on top of {} bytes: more than memory can have addresses for", tensor.describe(), offset);
  use_.bytes[static_cast<std::size_t>(kind)] += bytes;
  if (use_.total() > peak_.total()) peak_ = use_;
  return tensor;
}

void Arena::release(const Mark& mark) { use_ = mark.use; }

}  // namespace oxrse

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "engine/core/device.h"
#include "engine/core/tensor.h"

namespace oxrse {

/// What memory is used for; the plan reports bytes by these kinds.
enum class Memory : std::uint8_t { Weights, Gradients, Optimizer, Activations, Workspace };
inline constexpr std::size_t kMemoryKinds = 5;
std::string_view name_of(Memory kind);

/// Bytes by kind.
struct MemoryUse {
  std::array<std::int64_t, kMemoryKinds> bytes{};

  [[nodiscard]] std::int64_t operator[](Memory kind) const { return bytes[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::int64_t total() const;
};

/// A stack of tensors in one block of memory. A planned arena hands out addresses with nothing behind them and only counts,
/// so the high-water mark of a real step is known before anything is allocated.
class Arena {
 public:
  /// Only counts; any size fits.
  static Arena planned();
  /// Owns `bytes` of memory of the device; without one of the host, where the operating system provides it as it is touched. An Error says
  /// how much was asked for.
  static Arena allocated(std::int64_t bytes, Device* device = nullptr);

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// A contiguous tensor aligned to kAlignment bytes. Its contents are unspecified.
  Tensor make(DType type, std::initializer_list<std::int64_t> sizes, Memory kind) {
    return make(type, std::span(sizes.begin(), sizes.size()), kind);
  }
  Tensor make(DType type, std::span<const std::int64_t> sizes, Memory kind);

  /// The state of the stack, to return to with `release`.
  struct Mark {
    MemoryUse use;
  };
  [[nodiscard]] Mark mark() const { return {use_}; }
  /// Frees everything made since `mark`.
  void release(const Mark& mark);

  /// What was in use when the total was highest.
  [[nodiscard]] const MemoryUse& peak() const { return peak_; }
  [[nodiscard]] const MemoryUse& use() const { return use_; }
  [[nodiscard]] bool is_planned() const { return memory_ == nullptr; }

  static constexpr std::int64_t kAlignment = 64;  // one cache line, one AVX-512 register

 private:
  Arena() = default;
  Device* device_ = nullptr;  // whose memory it is; null: the host's
  std::byte* memory_ = nullptr;
  std::int64_t capacity_ = 0;
  MemoryUse use_;
  MemoryUse peak_;
};

/// Frees what was made in `arena` during its lifetime.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace oxrse

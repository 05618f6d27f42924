#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "engine/core/context.h"

// Loops over threads. Work is always cut into the same tiles, whatever the number of threads, and every sum over tiles is added up in
// the order of the tiles: so results have the same bits on one core and on a hundred.
namespace oxrse::cpu {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls `body(i)` for i in [0, count) from `cpu.threads` threads. The body must not throw: check arguments and data before.
template <class Body>
void parallel_for(const Cpu& cpu, std::int64_t count, const Body& body) {
  // The team is either whole or one thread: OpenMP runtimes end and restart threads when a team's size changes.
  if (cpu.threads <= 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#pragma omp parallel for num_threads(cpu.threads) schedule(static)
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

/// The same with every i given to the next free thread: for tiles that differ in work. Neighbours go to different threads.
template <class Body>
void parallel_for_uneven(const Cpu& cpu, std::int64_t count, const Body& body) {
  if (cpu.threads <= 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#pragma omp parallel for num_threads(cpu.threads) schedule(dynamic, 1)
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

/// Calls `body(begin, end)` for the tiles [begin, end) that cover [0, count), each of `tile` elements but the last.
template <class Body>
void parallel_tiles(const Cpu& cpu, std::int64_t count, std::int64_t tile, const Body& body) {
  parallel_for(cpu, divide_up(count, tile), [&](std::int64_t i) { body(i * tile, std::min(count, (i + 1) * tile)); });
}

/// Rows of `columns` elements that make a tile of about 16 Ki elements: enough work to pay for handing it to a thread, little
/// enough to stay in a core's cache.
constexpr std::int64_t rows_of_tile(std::int64_t columns) {
  constexpr std::int64_t kElements = 16384;
  return std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, columns));
}

/// `count` uninitialised elements of the calling thread, aligned to a cache line, until the end of the scope. Scopes nest. Memory is kept
/// for the next scope at the same depth, so that steady state allocates nothing.
template <class T>
class Scratch;

namespace detail {

struct FreeAligned {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
struct ScratchSlot {
  std::unique_ptr<std::byte[], FreeAligned> memory;
  std::size_t bytes = 0;
};
struct ScratchStack {
  std::vector<ScratchSlot> slots;
  std::size_t depth = 0;

  std::byte* push(std::size_t bytes) {
    if (depth == slots.size()) slots.emplace_back();
    ScratchSlot& slot = slots[depth++];
    if (slot.bytes < bytes) {
      slot.memory.reset();
      slot.memory.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
      slot.bytes = bytes;
    }
    return slot.memory.get();
  }
};
inline thread_local ScratchStack scratch_stack;

}  // namespace detail

template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t count)
      : data_(reinterpret_cast<T*>(detail::scratch_stack.push(static_cast<std::size_t>(count) * sizeof(T)))) {}
  ~Scratch() { --detail::scratch_stack.depth; }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  T& operator[](std::int64_t i) const { return data_[i]; }

 private:
  T* data_;
};

}  // namespace oxrse::cpu

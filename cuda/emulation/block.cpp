#include "cuda/emulation/block.h"

#include <cstring>

#include "cuda/emulation/scheduler.h"
#include "engine/core/error.h"

namespace oxrse::emulation {
namespace {

constexpr int kCopyBytes = 16;

struct ShuffleInput {
  std::uint64_t value;
  int source;
};

/// A lane that is not there gives the reader its own value.
void combine_shuffle(const LaneInputs& in, const LaneOutputs& out) {
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    if (in[lane] == nullptr) continue;
    const auto& own = *static_cast<const ShuffleInput*>(in[lane]);
    const void* source = in[static_cast<std::size_t>(own.source % kWarp)];
    *static_cast<std::uint64_t*>(out[lane]) = source != nullptr ? static_cast<const ShuffleInput*>(source)->value : own.value;
  }
}

void combine_ballot(const LaneInputs& in, const LaneOutputs& out) {
  unsigned votes = 0;
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    if (in[lane] != nullptr && *static_cast<const bool*>(in[lane])) votes |= 1U << lane;
  }
  for (void* result : out) {
    if (result != nullptr) *static_cast<unsigned*>(result) = votes;
  }
}

struct RowInput {
  std::array<std::uint16_t, 8> row;
  bool transposed;
};

void combine_load(const LaneInputs& in, const LaneOutputs& out) {
  const auto row = [&](std::size_t i) -> const RowInput& { return *static_cast<const RowInput*>(in[i]); };
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    auto& fragment = *static_cast<Fragment*>(out[lane]);
    const std::size_t i = lane / 4, j = lane % 4 * 2;
    for (std::size_t matrix = 0; matrix < 4; ++matrix) {
      const std::size_t first = matrix * 8;
      const bool transposed = row(first).transposed;
      const std::uint16_t low = transposed ? row(first + j).row[i] : row(first + i).row[j];
      const std::uint16_t high = transposed ? row(first + j + 1).row[i] : row(first + i).row[j + 1];
      fragment[matrix] = low | static_cast<std::uint32_t>(high) << 16U;
    }
  }
}

struct MultiplyInput {
  const std::array<float, 4>* c;
  const Fragment* a;
  const std::array<std::uint32_t, 2>* b;
  float (*widen)(std::uint16_t);
};

/// Where the fragments of m16n8k16 hold their elements: PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".
void combine_multiply(const LaneInputs& in, const LaneOutputs& out) {
  float a[16][16], b[8][16];
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const auto& own = *static_cast<const MultiplyInput*>(in[lane]);
    const std::size_t group = lane / 4, pair = lane % 4 * 2;
    for (std::size_t half = 0; half < 2; ++half) {
      const auto widened = [&](std::uint32_t bits) { return own.widen(static_cast<std::uint16_t>(bits >> 16U * half)); };
      for (std::size_t i = 0; i < 4; ++i) a[group + i % 2 * 8][pair + i / 2 * 8 + half] = widened((*own.a)[i]);
      for (std::size_t i = 0; i < 2; ++i) b[group][pair + i * 8 + half] = widened((*own.b)[i]);
    }
  }
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const auto& c = *static_cast<const MultiplyInput*>(in[lane])->c;
    auto& result = *static_cast<std::array<float, 4>*>(out[lane]);
    for (std::size_t i = 0; i < 4; ++i) {
      const float* row = a[lane / 4 + i / 2 * 8];
      const float* column = b[lane % 4 * 2 + i % 2];
      float sum = 0;
      for (std::size_t k = 0; k < 16; ++k) sum += row[k] * column[k];
      result[i] = c[i] + sum;
    }
  }
}

void make_copy(const AsyncCopy& copy) {
  std::memset(copy.to, 0, kCopyBytes);
  if (copy.valid > 0) std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.valid));
}

}  // namespace

void run(const Launch& launch, const std::function<void()>& thread) { scheduler().run(launch, thread); }

void* shared_memory() { return scheduler().shared_memory(); }

void barrier(const std::source_location& where) { scheduler().wait_for_block(where); }

int lane() { return scheduler().lane(); }

void sync_warp(unsigned mask, const std::source_location& where) {
  scheduler().wait_for_lanes(mask, nullptr, nullptr, nullptr, true, where);
}

std::uint64_t shuffle_bits(unsigned mask, std::uint64_t value, int source, const std::source_location& where) {
  const ShuffleInput in{value, source};
  std::uint64_t out = 0;
  scheduler().wait_for_lanes(mask, combine_shuffle, &in, &out, false, where);
  return out;
}

unsigned ballot(unsigned mask, bool predicate, const std::source_location& where) {
  unsigned out = 0;
  scheduler().wait_for_lanes(mask, combine_ballot, &predicate, &out, false, where);
  return out;
}

Fragment load_matrices(const std::array<std::uint16_t, 8>& row, bool transposed, const std::source_location& where) {
  const RowInput in{row, transposed};
  Fragment out{};
  scheduler().wait_for_lanes(~0U, combine_load, &in, &out, false, where);
  return out;
}

void multiply_matrices(std::array<float, 4>& c, const Fragment& a, const std::array<std::uint32_t, 2>& b, float (*widen)(std::uint16_t),
                       const std::source_location& where) {
  const std::array<float, 4> before = c;
  const MultiplyInput in{&before, &a, &b, widen};
  scheduler().wait_for_lanes(~0U, combine_multiply, &in, &c, false, where);
}

void copy_async(void* to, const void* from, int valid) {
  const auto misaligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % kCopyBytes != 0; };
  require(!misaligned(to) && !misaligned(from), "cp.async: addresses must be multiples of {} bytes, got {} and {}", kCopyBytes,
          fmt::ptr(to), fmt::ptr(from));
  require(valid >= 0 && valid <= kCopyBytes, "cp.async: 0 to {} bytes, got {}", kCopyBytes, valid);
  std::memset(to, 0xff, kCopyBytes);
  scheduler().copies().push_back({to, from, valid, scheduler().groups()});
}

void commit_copies() { ++scheduler().groups(); }

void wait_for_copies(int pending) {
  auto& copies = scheduler().copies();
  const int done = scheduler().groups() - pending;  // groups before this one
  std::size_t i = 0;
  while (i < copies.size() && copies[i].group < done) make_copy(copies[i++]);
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace oxrse::emulation

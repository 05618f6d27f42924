#include <algorithm>
#include <array>
#include <bit>

#include "engine/core/philox.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/optimizer.h"

namespace oxrse::ops {
namespace {

constexpr std::int64_t kWords = 4;   // of a draw
constexpr std::int64_t kHalves = 8;  // of a draw: one for an element
constexpr std::int64_t kDraws = 64;  // at once, so that they stay in the cache
constexpr std::int64_t kTile = 32 * kDraws * kHalves;

void draw(const RandomStream& random, std::uint64_t i, std::uint32_t* words) {
  const auto drawn = random.words(i);
  words[0] = drawn[0];
  words[1] = drawn[1];
  words[2] = drawn[2];
  words[3] = drawn[3];
}

bf16 cut(float x, std::uint32_t random_half) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  bf16 result;
  result.bits = static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : bits + random_half) >> 16U);
  return result;
}

}  // namespace

void launch(Cpu& cpu, const RoundAtRandom& op) {
  const auto updates = static_cast<std::uint64_t>(op.control.data<double>()[kUpdates]);
  const RandomStream random(op.seed + updates * 0x9E3779B97F4A7C15U, op.stream);
  const float* x = op.x.data<float>();
  bf16* y = op.y.data<bf16>();
  cpu::parallel_tiles(cpu, op.x.count(), kTile, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::uint32_t, kDraws * kWords> words;
    for (std::int64_t first = begin; first < end; first += kDraws * kHalves) {
#pragma omp simd
      for (std::int64_t i = 0; i < kDraws; ++i)
        draw(random, static_cast<std::uint64_t>((op.first_element + first) / kHalves + i), words.data() + i * kWords);
      const std::int64_t count = std::min(end - first, kDraws * kHalves);
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint32_t word = words[static_cast<std::size_t>(i / 2)];
        y[first + i] = cut(x[first + i], i % 2 == 0 ? word & 0xffffU : word >> 16U);
      }
    }
  });
}

}  // namespace oxrse::ops

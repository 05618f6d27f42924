#include "engine/ops/dropout.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/cpu/convert.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"

namespace oxrse::ops {
namespace {

constexpr std::uint64_t kWords = 4;  // of a draw

void draw(const RandomStream& random, std::uint64_t i, std::uint32_t* words) {
  const auto drawn = random.words(i);
  words[0] = drawn[0];
  words[1] = drawn[1];
  words[2] = drawn[2];
  words[3] = drawn[3];
}

/// The words of `count` elements from `first` on, in blocks so that they stay in the cache: calls use(c, words, n) for the n elements
/// from first + c on.
template <class Use>
void for_words(const RandomStream& random, std::uint64_t first, std::int64_t count, const Use& use) {
  constexpr std::int64_t kDraws = 64;
  std::array<std::uint32_t, kDraws * kWords> words;
  std::int64_t c = 0;
  while (c < count) {
    const std::uint64_t element = first + static_cast<std::uint64_t>(c);
    const auto skipped = static_cast<std::int64_t>(element % kWords);  // of the first draw, which began before this element
#pragma omp simd
    for (std::int64_t i = 0; i < kDraws; ++i) draw(random, element / kWords + static_cast<std::uint64_t>(i), words.data() + i * 4);
    const std::int64_t n = std::min(count - c, kDraws * static_cast<std::int64_t>(kWords) - skipped);
    use(c, words.data() + skipped, n);
    c += n;
  }
}

std::uint32_t threshold(double p) {
  return static_cast<std::uint32_t>(std::min(p * 0x1p32, static_cast<double>(std::numeric_limits<std::uint32_t>::max())));
}

template <class A, class T>
void drop(T* y, const T* x, const T* residual, const std::uint32_t* words, std::int64_t count, std::uint32_t dropped, A scale) {
  if (residual != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const A kept = static_cast<A>(x[i]) * scale;
      y[i] = cpu::convert<T>(static_cast<A>(residual[i]) + (words[i] >= dropped ? kept : A(0)));
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const A kept = static_cast<A>(x[i]) * scale;
      y[i] = cpu::convert<T>(words[i] >= dropped ? kept : A(0));
    }
  }
}

template <class T>
void dropout(const Cpu& cpu, const Dropout& op) {
  using A = accumulator_t<T>;
  const bool has_residual = op.residual.present();
  const cpu::Rows<const T> x(op.x);
  const cpu::Rows<const T> residual(has_residual ? op.residual : op.x);
  const cpu::Rows<T> y(op.y);
  const auto scale = static_cast<A>(1 / (1 - op.p));
  const std::uint32_t dropped = threshold(op.p);
  const std::int64_t columns = x.columns();
  cpu::parallel_tiles(cpu, x.count(), cpu::rows_of_tile(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T* xn = x[n];
      const T* residual_n = has_residual ? residual[n] : nullptr;
      T* yn = y[n];
      const auto first = static_cast<std::uint64_t>((op.first_row + n) * columns);
      for_words(op.random, first, columns, [&](std::int64_t c, const std::uint32_t* words, std::int64_t count) {
        drop(yn + c, xn + c, has_residual ? residual_n + c : nullptr, words, count, dropped, scale);
      });
    }
  });
}

}  // namespace

void launch(Cpu& cpu, const Dropout& op) {
  visit_floating(op.x.dtype(), [&](auto tag) { dropout<typename decltype(tag)::type>(cpu, op); });
}

}  // namespace oxrse::ops

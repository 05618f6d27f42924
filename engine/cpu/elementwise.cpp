#include "engine/ops/elementwise.h"

#include <algorithm>

#include "engine/cpu/convert.h"
#include "engine/cpu/parallel.h"

namespace oxrse::ops {
namespace {

constexpr std::int64_t kTile = 16384;

template <class T>
void fill(const Cpu& cpu, const Fill& op) {
  T* y = op.y.data<T>();
  const T value = cpu::convert<T>(op.value);
  cpu::parallel_tiles(cpu, op.y.count(), kTile, [&](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, value); });
}

template <class T>
void fill_normal(const Cpu& cpu, const FillNormal& op) {
  T* y = op.y.data<T>();
  cpu::parallel_tiles(cpu, op.y.count(), kTile, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double z = op.random.normal(static_cast<std::uint64_t>(op.first_element + i));
      y[i] = cpu::convert<T>(op.mean + op.stddev * z);
    }
  });
}

template <class To, class From>
void cast(const Cpu& cpu, const Cast& op) {
  const From* x = op.x.data<From>();
  To* y = op.y.data<To>();
  cpu::parallel_tiles(cpu, op.y.count(), kTile, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = cpu::convert<To>(x[i]);
  });
}

template <class T>
void add(const Cpu& cpu, const Add& op) {
  using A = accumulator_t<T>;
  const T* a = op.a.data<T>();
  const T* b = op.b.data<T>();
  T* y = op.y.data<T>();
  cpu::parallel_tiles(cpu, op.y.count(), kTile, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = cpu::convert<T>(static_cast<A>(a[i]) + static_cast<A>(b[i]));
  });
}

template <class T>
void sum(const Cpu& cpu, const Sum& op) {
  const T* x = op.x.data<T>();
  const std::int64_t count = op.x.count();
  const std::int64_t tiles = cpu::divide_up(count, kTile);
  const cpu::Scratch<double> partials(tiles);
  cpu::parallel_for(cpu, tiles, [&](std::int64_t tile) {
    const std::int64_t end = std::min(count, (tile + 1) * kTile);
    double partial = 0;
#pragma omp simd reduction(+ : partial)
    for (std::int64_t i = tile * kTile; i < end; ++i) partial += cpu::convert<double>(x[i]);
    partials[tile] = partial;
  });
  double total = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) total += partials[tile];
  auto* result = op.sum.data<double>();
  *result = op.to_sum == Write::Assign ? total : *result + total;
}

}  // namespace

void launch(Cpu& cpu, const Fill& op) {
  visit_floating(op.y.dtype(), [&](auto tag) { fill<typename decltype(tag)::type>(cpu, op); });
}

void launch(Cpu& cpu, const FillNormal& op) {
  visit_floating(op.y.dtype(), [&](auto tag) { fill_normal<typename decltype(tag)::type>(cpu, op); });
}

void launch(Cpu& cpu, const Cast& op) {
  visit_floating(op.y.dtype(), [&](auto to) {
    visit_floating(op.x.dtype(), [&](auto from) { cast<typename decltype(to)::type, typename decltype(from)::type>(cpu, op); });
  });
}

void launch(Cpu& cpu, const Add& op) {
  visit_floating(op.y.dtype(), [&](auto tag) { add<typename decltype(tag)::type>(cpu, op); });
}

void launch(Cpu& cpu, const Sum& op) {
  visit_floating(op.x.dtype(), [&](auto tag) { sum<typename decltype(tag)::type>(cpu, op); });
}

}  // namespace oxrse::ops

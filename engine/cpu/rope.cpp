#include "engine/ops/rope.h"

#include <cmath>

#include "engine/cpu/convert.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"

namespace oxrse::ops {
namespace {

template <class A>
void fill_table(const Cpu& cpu, const RopeTable& op) {
  const cpu::Rows<A> table(op.table);
  const std::int64_t half = table.columns() / 2;
  cpu::parallel_tiles(cpu, table.count(), cpu::rows_of_tile(16 * table.columns()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      A* row = table[t];
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) * std::pow(op.theta, -static_cast<double>(i) / static_cast<double>(half));
        row[i] = static_cast<A>(std::cos(angle));
        row[half + i] = static_cast<A>(std::sin(angle));
      }
    }
  });
}

/// (a, b) -> (a cos - b sin, a sin + b cos) for the pairs of one head; `sign` -1 turns back.
template <class A, class T>
void rotate(T* x, const A* cosines, const A* sines, A sign, std::int64_t half) {
  T* first = x;
  T* second = x + half;
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const auto a = static_cast<A>(first[i]);
    const auto b = static_cast<A>(second[i]);
    const A sine = sign * sines[i];
    first[i] = cpu::convert<T>(a * cosines[i] - b * sine);
    second[i] = cpu::convert<T>(a * sine + b * cosines[i]);
  }
}

template <class T>
void rotate_rows(const Cpu& cpu, const Rope& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<T> x(op.x);
  const cpu::Rows<const A> table(op.table);
  const auto* positions = op.positions.data<std::int32_t>();
  const std::int64_t heads = op.x.size(1);
  const std::int64_t half = x.columns() / 2;
  const A sign = op.inverse ? A(-1) : A(1);
  cpu::parallel_tiles(cpu, op.x.size(0), cpu::rows_of_tile(heads * x.columns()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const A* angles = table[positions[n]];
      for (std::int64_t h = 0; h < heads; ++h) rotate<A>(x[n * heads + h], angles, angles + half, sign, half);
    }
  });
}

}  // namespace

void launch(Cpu& cpu, const RopeTable& op) {
  if (op.table.dtype() == DType::F64) {
    fill_table<double>(cpu, op);
  } else {
    fill_table<float>(cpu, op);
  }
}

void launch(Cpu& cpu, const Rope& op) {
  check_data(op);
  visit_floating(op.x.dtype(), [&](auto tag) { rotate_rows<typename decltype(tag)::type>(cpu, op); });
}

}  // namespace oxrse::ops

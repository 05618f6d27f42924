#include "engine/ops/rmsnorm.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/convert.h"
#include "engine/cpu/partials.h"
#include "engine/cpu/rows.h"

namespace oxrse::ops {
namespace {

template <class T>
void forward(const Cpu& cpu, const RmsNorm& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<const T> x(op.x);
  const cpu::Rows<T> y(op.y);
  const T* w = op.w.data<T>();
  A* rstd = op.rstd.data<A>();
  const std::int64_t columns = x.columns();
  cpu::parallel_tiles(cpu, x.count(), cpu::rows_of_tile(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T* xn = x[n];
      T* yn = y[n];
      A squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t c = 0; c < columns; ++c) squares += static_cast<A>(xn[c]) * static_cast<A>(xn[c]);
      const A r = 1 / std::sqrt(squares / static_cast<A>(columns) + static_cast<A>(op.eps));
      rstd[n] = r;
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) yn[c] = cpu::convert<T>(static_cast<A>(xn[c]) * r * static_cast<A>(w[c]));
    }
  });
}

/// One row of backward; adds the row's part to dw.
template <class A, class T>
void backward_row(T* dx, A* dw, const T* dy, const T* x, const T* w, A rstd, std::int64_t columns, Write to_dx) {
  A sum = 0;  // sum_c dy*w*xhat
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < columns; ++c) {
    const A d_xhat = static_cast<A>(dy[c]) * (static_cast<A>(x[c]) * rstd);
    sum += d_xhat * static_cast<A>(w[c]);
    dw[c] += d_xhat;
  }
  const A mean = sum / static_cast<A>(columns);
  const auto gradient = [&](std::int64_t c) {
    return rstd * (static_cast<A>(dy[c]) * static_cast<A>(w[c]) - static_cast<A>(x[c]) * rstd * mean);
  };
  if (to_dx == Write::Assign) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) dx[c] = cpu::convert<T>(gradient(c));
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) dx[c] = cpu::convert<T>(static_cast<A>(dx[c]) + gradient(c));
  }
}

template <class T>
void backward(const Cpu& cpu, const RmsNorm::Backward& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<const T> x(op.x);
  const cpu::Rows<const T> dy(op.dy);
  const cpu::Rows<T> dx(op.dx);
  const T* w = op.w.data<T>();
  const A* rstd = op.rstd.data<A>();
  const std::int64_t rows = x.count();
  const std::int64_t columns = x.columns();
  const std::int64_t tile_rows = cpu::rows_of_partial(rows);
  const std::int64_t tiles = cpu::divide_up(rows, tile_rows);
  const cpu::Scratch<A> partials(tiles * columns);
  cpu::parallel_for(cpu, tiles, [&](std::int64_t tile) {
    A* dw = partials.data() + tile * columns;
    std::fill_n(dw, columns, A(0));
    for (std::int64_t n = tile * tile_rows; n < std::min(rows, (tile + 1) * tile_rows); ++n) {
      backward_row<A>(dx[n], dw, dy[n], x[n], w, rstd[n], columns, op.to_dx);
    }
  });
  cpu::sum_partials(cpu, op.dw.data<A>(), op.to_dw, partials.data(), tiles, columns, columns);
}

}  // namespace

void launch(Cpu& cpu, const RmsNorm& op) {
  visit_floating(op.x.dtype(), [&](auto tag) { forward<typename decltype(tag)::type>(cpu, op); });
}

void launch(Cpu& cpu, const RmsNorm::Backward& op) {
  visit_floating(op.x.dtype(), [&](auto tag) { backward<typename decltype(tag)::type>(cpu, op); });
}

}  // namespace oxrse::ops

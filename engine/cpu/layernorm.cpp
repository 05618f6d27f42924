#include "engine/ops/layernorm.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/convert.h"
#include "engine/cpu/partials.h"
#include "engine/cpu/rows.h"

namespace oxrse::ops {
namespace {

template <class A>
struct Statistics {
  A mean;   // to the accuracy of A
  A shift;  // the exact mean is mean + shift
  A rstd;
};

/// Two passes: a mean, then the moments about it. The mean of the deviations corrects the first mean, which rounding left off by
/// up to C/16 units in the last place (Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983).
template <class A, class T>
Statistics<A> statistics(const T* x, std::int64_t columns, A eps) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < columns; ++c) sum += static_cast<A>(x[c]);
  const A mean = sum / static_cast<A>(columns);
  A deviations = 0;
  A squares = 0;
#pragma omp simd reduction(+ : deviations, squares)
  for (std::int64_t c = 0; c < columns; ++c) {
    const A d = static_cast<A>(x[c]) - mean;
    deviations += d;
    squares += d * d;
  }
  const A shift = deviations / static_cast<A>(columns);
  const A variance = std::max(A(0), squares / static_cast<A>(columns) - shift * shift);
  return {.mean = mean, .shift = shift, .rstd = 1 / std::sqrt(variance + eps)};
}

template <class T>
void forward(const Cpu& cpu, const LayerNorm& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<const T> x(op.x);
  const cpu::Rows<T> y(op.y);
  const T* w = op.w.data<T>();
  const T* b = op.b.present() ? op.b.data<T>() : nullptr;
  A* mean = op.mean.data<A>();
  A* rstd = op.rstd.data<A>();
  const std::int64_t columns = x.columns();
  cpu::parallel_tiles(cpu, x.count(), cpu::rows_of_tile(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T* xn = x[n];
      T* yn = y[n];
      const Statistics<A> s = statistics<A>(xn, columns, static_cast<A>(op.eps));
      mean[n] = s.mean + s.shift;
      rstd[n] = s.rstd;
      const auto xhat = [&](std::int64_t c) { return ((static_cast<A>(xn[c]) - s.mean) - s.shift) * s.rstd; };
      if (b != nullptr) {
#pragma omp simd
        for (std::int64_t c = 0; c < columns; ++c) yn[c] = cpu::convert<T>(xhat(c) * static_cast<A>(w[c]) + static_cast<A>(b[c]));
      } else {
#pragma omp simd
        for (std::int64_t c = 0; c < columns; ++c) yn[c] = cpu::convert<T>(xhat(c) * static_cast<A>(w[c]));
      }
    }
  });
}

/// One row of backward; adds the row's part to dw and db.
template <class A, class T>
void backward_row(T* dx, A* dw, A* db, const T* dy, const T* x, const T* w, A mean, A rstd, std::int64_t columns, Write to_dx) {
  A sum_g = 0;       // sum_c dy*w
  A sum_g_xhat = 0;  // sum_c dy*w*xhat
#pragma omp simd reduction(+ : sum_g, sum_g_xhat)
  for (std::int64_t c = 0; c < columns; ++c) {
    const auto d = static_cast<A>(dy[c]);
    const A xhat = (static_cast<A>(x[c]) - mean) * rstd;
    const A g = d * static_cast<A>(w[c]);
    sum_g += g;
    sum_g_xhat += g * xhat;
    dw[c] += d * xhat;
    db[c] += d;
  }
  const A mean_g = sum_g / static_cast<A>(columns);
  const A mean_g_xhat = sum_g_xhat / static_cast<A>(columns);
  const auto gradient = [&](std::int64_t c) {
    const A xhat = (static_cast<A>(x[c]) - mean) * rstd;
    return rstd * (static_cast<A>(dy[c]) * static_cast<A>(w[c]) - mean_g - xhat * mean_g_xhat);
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
void backward(const Cpu& cpu, const LayerNorm::Backward& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<const T> x(op.x);
  const cpu::Rows<const T> dy(op.dy);
  const cpu::Rows<T> dx(op.dx);
  const T* w = op.w.data<T>();
  const A* mean = op.mean.data<A>();
  const A* rstd = op.rstd.data<A>();
  const std::int64_t rows = x.count();
  const std::int64_t columns = x.columns();
  const std::int64_t tile_rows = cpu::rows_of_partial(rows);
  const std::int64_t tiles = cpu::divide_up(rows, tile_rows);
  const cpu::Scratch<A> partials(tiles * 2 * columns);  // a tile's dw, then its db
  cpu::parallel_for(cpu, tiles, [&](std::int64_t tile) {
    A* dw = partials.data() + tile * 2 * columns;
    A* db = dw + columns;
    std::fill_n(dw, 2 * columns, A(0));
    for (std::int64_t n = tile * tile_rows; n < std::min(rows, (tile + 1) * tile_rows); ++n) {
      backward_row<A>(dx[n], dw, db, dy[n], x[n], w, mean[n], rstd[n], columns, op.to_dx);
    }
  });
  cpu::sum_partials(cpu, op.dw.data<A>(), op.to_dw, partials.data(), tiles, 2 * columns, columns);
  if (op.db.present()) cpu::sum_partials(cpu, op.db.data<A>(), op.to_dw, partials.data() + columns, tiles, 2 * columns, columns);
}

}  // namespace

void launch(Cpu& cpu, const LayerNorm& op) {
  visit_floating(op.x.dtype(), [&](auto tag) { forward<typename decltype(tag)::type>(cpu, op); });
}

void launch(Cpu& cpu, const LayerNorm::Backward& op) {
  visit_floating(op.x.dtype(), [&](auto tag) { backward<typename decltype(tag)::type>(cpu, op); });
}

}  // namespace oxrse::ops

#include "engine/cpu/gemm.h"

#include <algorithm>

#include "engine/cpu/convert.h"
#include "engine/cpu/gemm_tile.h"
#include "engine/cpu/parallel.h"

namespace oxrse::cpu {
namespace {

/// Tiles of `m` x `n`, sums over ranges of `k`.
struct Grid {
  std::int64_t m, n, k;                // of a tile
  std::int64_t rows, columns, splits;  // number of tiles and ranges
  [[nodiscard]] std::int64_t tiles() const { return rows * columns; }
};

constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

/// The largest multiple of `step` up to `limit` that cuts `size` into pieces of nearly one size.
std::int64_t even_tile(std::int64_t size, std::int64_t limit, std::int64_t step) {
  return round_up(divide_up(size, divide_up(size, limit)), step);
}

/// A function of the sizes alone. Tiles of 256 x 384 reach the speed of whole products (AMD Zen 5, oneDNN 2.6, f32 and bf16; 512 columns
/// are 2% slower, and 384 divides the usual widths), 64 x 64 about 90% of it; so tiles shrink only until kEnough of them keep the threads
/// busy, or their work would not pay for handing it out.
Grid grid_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kRowStep = 16, kColumnStep = 64, kSmallest = 64, kEnough = 16, kLeastWork = 1 << 20, kLeastRange = 512;
  std::int64_t tm = 256, tn = 384;
  const auto tiles = [&] { return divide_up(m, tm) * divide_up(n, tn); };
  tm = std::min(tm, round_up(m, kRowStep));
  tn = std::min(tn, round_up(n, kColumnStep));
  while (tiles() < kEnough && std::max(tm, tn) > kSmallest && tm * tn * k > kLeastWork) {
    std::int64_t& longer = tn >= tm ? tn : tm;
    longer = round_up(longer / 2, kSmallest);
  }
  Grid grid{};
  grid.m = even_tile(m, tm, kRowStep);
  grid.n = even_tile(n, tn, kColumnStep);
  grid.rows = divide_up(m, grid.m);
  grid.columns = divide_up(n, grid.n);
  const std::int64_t ranges = std::clamp<std::int64_t>(k / kLeastRange, 1, divide_up(kEnough, grid.tiles()));
  grid.k = even_tile(std::max<std::int64_t>(k, 1), divide_up(std::max<std::int64_t>(k, 1), ranges), kColumnStep);
  grid.splits = divide_up(std::max<std::int64_t>(k, 1), grid.k);
  return grid;
}

/// Rows [row, row_end) and columns [column, column_end) of C.
struct Area {
  std::int64_t row, row_end, column, column_end;
};

/// to[i] += from[i]
template <class R, class T>
void add_row(R* to, const T* from, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] += static_cast<R>(from[i]);
}

/// C = sums + bias + residual (+ C) over an area; `sums` has rows of `stride` and is used up.
template <class T>
void finish(const Gemm& g, const Area& area, accumulator_t<T>* sums, std::int64_t stride) {
  const std::int64_t columns = area.column_end - area.column;
  const auto row_of = [&](const auto& x, std::int64_t i) { return x.template data<T>() + i * x.stride(0) + area.column; };
  for (std::int64_t i = area.row; i < area.row_end; ++i, sums += stride) {
    T* c = row_of(g.c, i);
    if (g.bias.present()) add_row(sums, g.bias.data<T>() + area.column, columns);
    if (g.residual.present()) add_row(sums, row_of(g.residual, i), columns);
    if (g.to_c == Write::Add) add_row(sums, c, columns);
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) c[j] = convert<T>(sums[j]);
  }
}

class Product {
 public:
  explicit Product(const Gemm& g) : g_(g), k_(g.transpose_a ? g.a.size(0) : g.a.size(1)), grid_(grid_of(g.c.size(0), g.c.size(1), k_)) {}

  void run(const Cpu& cpu) const {
    if (grid_.splits > 1) return run_split(cpu);
    const bool direct = g_.c.dtype() == accumulator() && !g_.bias.present() && !g_.residual.present() && g_.c.stride(0) <= kWidestRow;
    parallel_for(cpu, grid_.tiles(), [&](std::int64_t i) {
      const Area area = area_of(i);
      if (direct) {
        compute(area, 0, g_.c.address() + (area.row * g_.c.stride(0) + area.column) * size_of(accumulator()), g_.c.stride(0),
                g_.to_c == Write::Add);
        return;
      }
      const Scratch<std::byte> sums(grid_.m * grid_.n * size_of(accumulator()));
      compute(area, 0, sums.data(), grid_.n, false);
      finish_area(area, sums.data());
    });
  }

 private:
  /// Every range of k of every tile, then the sums of ranges in order.
  void run_split(const Cpu& cpu) const {
    const std::int64_t tile_bytes = grid_.m * grid_.n * size_of(accumulator());
    const Scratch<std::byte> partials(grid_.tiles() * grid_.splits * tile_bytes);
    parallel_for(cpu, grid_.tiles() * grid_.splits, [&](std::int64_t i) {
      compute(area_of(i / grid_.splits), i % grid_.splits, partials.data() + i * tile_bytes, grid_.n, false);
    });
    parallel_for(cpu, grid_.tiles(), [&](std::int64_t i) {
      std::byte* sums = partials.data() + i * grid_.splits * tile_bytes;
      accumulator() == DType::F64 ? add_up<double>(sums) : add_up<float>(sums);
      finish_area(area_of(i), sums);
    });
  }

  template <class R>
  void add_up(std::byte* memory) const {
    R* sums = reinterpret_cast<R*>(memory);
    const std::int64_t count = grid_.m * grid_.n;
    for (std::int64_t split = 1; split < grid_.splits; ++split) {
      for (std::int64_t j = 0; j < count; ++j) sums[j] += sums[split * count + j];
    }
  }

  void compute(const Area& area, std::int64_t split, std::byte* c, std::int64_t ldc, bool add) const {
    const DType type = g_.a.dtype();
    const std::int64_t k = split * grid_.k;
    gemm_tile({.m = area.row_end - area.row,
               .n = area.column_end - area.column,
               .k = std::min(k_, k + grid_.k) - k,
               .type = type,
               .a = GemmOperand{g_.a.address(), g_.a.stride(0), g_.transpose_a}.at(area.row, k, type),
               .b = GemmOperand{g_.b.address(), g_.b.stride(0), g_.transpose_b}.at(k, area.column, type),
               .c = c,
               .ldc = ldc,
               .add = add});
  }

  void finish_area(const Area& area, std::byte* sums) const {
    visit_floating(g_.c.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      finish<T>(g_, area, reinterpret_cast<accumulator_t<T>*>(sums), grid_.n);
    });
  }

  [[nodiscard]] Area area_of(std::int64_t tile) const {
    const std::int64_t row = tile / grid_.columns * grid_.m, column = tile % grid_.columns * grid_.n;
    return {row, std::min(g_.c.size(0), row + grid_.m), column, std::min(g_.c.size(1), column + grid_.n)};
  }

  [[nodiscard]] DType accumulator() const { return accumulator_of(g_.a.dtype()); }

  const Gemm& g_;
  std::int64_t k_;
  Grid grid_;
};

}  // namespace

void gemm(const Cpu& cpu, const Gemm& product) {
  if (product.c.count() == 0) return;
  Product(product).run(cpu);
}

}  // namespace oxrse::cpu

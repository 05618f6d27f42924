#include "engine/ops/embedding.h"

#include <algorithm>

#include "engine/cpu/convert.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"

namespace oxrse::ops {
namespace {

template <class T>
void forward(const Cpu& cpu, const Embedding& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<const T> table(op.table);
  const cpu::Rows<T> y(op.y);
  const auto* ids = op.ids.data<std::int32_t>();
  const std::int64_t columns = y.columns();
  cpu::parallel_tiles(cpu, y.count(), cpu::rows_of_tile(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T* row = table[ids[n]];
      T* yn = y[n];
      if (op.to_y == Write::Assign) {
        std::copy_n(row, columns, yn);
      } else {
#pragma omp simd
        for (std::int64_t c = 0; c < columns; ++c) yn[c] = cpu::convert<T>(static_cast<A>(yn[c]) + static_cast<A>(row[c]));
      }
    }
  });
}

/// Threads share the columns, not the rows: each adds up its columns in the order of n, so no two write the same element.
template <class T>
void backward(const Cpu& cpu, const Embedding::Backward& op) {
  using A = accumulator_t<T>;
  constexpr std::int64_t kColumns = 128;
  const cpu::Rows<const T> dy(op.dy);
  const cpu::Rows<A> dtable(op.dtable);
  const auto* ids = op.ids.data<std::int32_t>();
  const std::int64_t columns = dy.columns();
  if (op.to_dtable == Write::Assign) {
    cpu::parallel_tiles(cpu, dtable.count(), cpu::rows_of_tile(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v) std::fill_n(dtable[v], columns, A(0));
    });
  }
  cpu::parallel_tiles(cpu, columns, kColumns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = 0; n < dy.count(); ++n) {
      const T* dyn = dy[n];
      A* row = dtable[ids[n]];
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) row[c] += static_cast<A>(dyn[c]);
    }
  });
}

}  // namespace

void launch(Cpu& cpu, const Embedding& op) {
  check_data(op);
  visit_floating(op.table.dtype(), [&](auto tag) { forward<typename decltype(tag)::type>(cpu, op); });
}

void launch(Cpu& cpu, const Embedding::Backward& op) {
  check_data(op);
  visit_floating(op.dy.dtype(), [&](auto tag) { backward<typename decltype(tag)::type>(cpu, op); });
}

}  // namespace oxrse::ops

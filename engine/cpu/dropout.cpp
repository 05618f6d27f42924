#include "engine/ops/dropout.h"

#include "engine/cpu/convert.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"

namespace oxrse::ops {
namespace {

/// One row; its first element has the random number `first`.
template <class A, class T>
void drop_row(T* y, const T* x, const T* residual, std::int64_t columns, const Dropout& op, std::uint64_t first) {
  const A scale = static_cast<A>(1 / (1 - op.p));
  for (std::int64_t c = 0; c < columns; ++c) {
    const bool keep = op.random.uniform(first + static_cast<std::uint64_t>(c)) >= op.p;
    const A kept = keep ? static_cast<A>(x[c]) * scale : A(0);
    y[c] = cpu::convert<T>(residual != nullptr ? static_cast<A>(residual[c]) + kept : kept);
  }
}

template <class T>
void dropout(const Cpu& cpu, const Dropout& op) {
  const bool has_residual = op.residual.present();
  const cpu::Rows<const T> x(op.x);
  const cpu::Rows<const T> residual(has_residual ? op.residual : op.x);
  const cpu::Rows<T> y(op.y);
  const std::int64_t columns = x.columns();
  cpu::parallel_tiles(cpu, x.count(), cpu::rows_of_tile(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      drop_row<accumulator_t<T>>(y[n], x[n], has_residual ? residual[n] : nullptr, columns, op,
                                 static_cast<std::uint64_t>((op.first_row + n) * columns));
    }
  });
}

}  // namespace

void launch(Cpu& cpu, const Dropout& op) {
  visit_floating(op.x.dtype(), [&](auto tag) { dropout<typename decltype(tag)::type>(cpu, op); });
}

}  // namespace oxrse::ops

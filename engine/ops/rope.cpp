#include "engine/ops/rope.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {

void check_data(const Rope& op) {
  const auto* positions = op.positions.data<std::int32_t>();
  for (std::int64_t n = 0; n < op.positions.count(); ++n) {
    require(positions[n] >= 0 && positions[n] < op.table.size(0), "rope: positions[{}] is {}, the table has positions 0 to {}", n,
            positions[n], op.table.size(0) - 1);
  }
}

Cost check(const RopeTable& op) {
  const Checks c(op);
  c.that((op.table.dtype() == DType::F32 || op.table.dtype() == DType::F64) && op.table.rank() == 2,
         "table must be an f32 or f64 tensor (T, D), got {}", op.table.describe());
  c.that(op.table.size(1) % 2 == 0, "table must have an even number of columns, got {}", op.table.describe());
  c.that(op.theta > 0, "theta must be positive, got {}", op.theta);
  return {.flops = 0, .bytes = bytes_of(op.table)};
}

Cost check(const Rope& op) {
  const Checks c(op);
  c.floating("x", op.x, 3, "(N, H, D)");
  c.that(op.x.size(2) % 2 == 0, "x must have an even last dimension, got {}", op.x.describe());
  c.is("positions", op.positions, DType::I32, {op.x.size(0)});
  c.floating("table", op.table, 2, "(T, D)");
  c.is("table", op.table, accumulator_of(op.x.dtype()), {op.table.size(0), op.x.size(2)});
  // Four products and two sums a pair; the table's rows are read once for all heads.
  return {
      .flops = 3 * static_cast<double>(op.x.count()),
      .bytes = 2 * bytes_of(op.x) + bytes_of(op.positions) + static_cast<double>(op.x.size(0) * op.x.size(2) * size_of(op.table.dtype()))};
}

std::string shape(const RopeTable& op) { return fmt::format("T={} D={}", op.table.size(0), op.table.size(1)); }
std::string shape(const Rope& op) { return fmt::format("N={} H={} D={}", op.x.size(0), op.x.size(1), op.x.size(2)); }

}  // namespace oxrse::ops

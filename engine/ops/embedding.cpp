#include "engine/ops/embedding.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {

Cost check(const Embedding& op) {
  const Checks c(op);
  c.floating("table", op.table, 2, "(V, C)");
  c.vector("ids", op.ids, DType::I32, "(N)");
  c.is("y", op.y, op.table.dtype(), {op.ids.size(0), op.table.size(1)});
  // The rows of the table that are read are as many as those of y.
  return {.flops = op.to_y == Write::Add ? static_cast<double>(op.y.count()) : 0,
          .bytes = bytes_of(op.ids) + bytes_of(op.y) + bytes_of_result(op.y, op.to_y)};
}

Cost check(const Embedding::Backward& op) {
  const Checks c(op);
  c.floating("dy", op.dy, 2, "(N, C)");
  c.is("ids", op.ids, DType::I32, {op.dy.size(0)});
  c.floating("dtable", op.dtable, 2, "(V, C)");
  c.is("dtable", op.dtable, accumulator_of(op.dy.dtype()), {op.dtable.size(0), op.dy.size(1)});
  // The rows that are added to are as many as those of dy; assigning also clears the table.
  const double rows = 2 * static_cast<double>(op.dy.count() * size_of(op.dtable.dtype()));
  const double cleared = op.to_dtable == Write::Assign ? bytes_of(op.dtable) : 0;
  return {.flops = static_cast<double>(op.dy.count()), .bytes = bytes_of(op.ids, op.dy) + rows + cleared};
}

std::string shape(const Embedding& op) { return fmt::format("N={} V={} C={}", op.ids.size(0), op.table.size(0), op.table.size(1)); }
std::string shape(const Embedding::Backward& op) {
  return fmt::format("N={} V={} C={}", op.ids.size(0), op.dtable.size(0), op.dtable.size(1));
}

}  // namespace oxrse::ops

#include "engine/ops/embedding.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {
namespace {

void check_ids(std::string_view op, const ConstTensor& ids, std::int64_t vocabulary) {
  const auto* id = ids.data<std::int32_t>();
  for (std::int64_t n = 0; n < ids.count(); ++n) {
    require(id[n] >= 0 && id[n] < vocabulary, "{}: ids[{}] is {}, the table has rows 0 to {}", op, n, id[n], vocabulary - 1);
  }
}

}  // namespace

void check_data(const Embedding& op) { check_ids(Embedding::name, op.ids, op.table.size(0)); }
void check_data(const Embedding::Backward& op) { check_ids(Embedding::Backward::name, op.ids, op.dtable.size(0)); }

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

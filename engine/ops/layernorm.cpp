#include "engine/ops/layernorm.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {

Cost check(const LayerNorm& op) {
  const Checks c(op);
  c.floating("x", op.x, 2, "(N, C)");
  const std::int64_t rows = op.x.size(0);
  const std::int64_t columns = op.x.size(1);
  const DType accumulator = accumulator_of(op.x.dtype());
  c.that(columns > 0, "x has rows without elements: {}", op.x.describe());
  c.is_like("y", op.y, op.x);
  c.is("mean", op.mean, accumulator, {rows});
  c.is("rstd", op.rstd, accumulator, {rows});
  c.is("w", op.w, op.x.dtype(), {columns});
  c.is_optional("b", op.b, op.x.dtype(), {columns});
  c.that(op.eps >= 0, "eps must not be negative, got {}", op.eps);
  return {.flops = 8 * static_cast<double>(op.x.count()), .bytes = bytes_of(op.x, op.y, op.mean, op.rstd, op.w, op.b)};
}

Cost check(const LayerNorm::Backward& op) {
  const Checks c(op);
  c.floating("x", op.x, 2, "(N, C)");
  const std::int64_t rows = op.x.size(0);
  const std::int64_t columns = op.x.size(1);
  const DType accumulator = accumulator_of(op.x.dtype());
  c.that(columns > 0, "x has rows without elements: {}", op.x.describe());
  c.is_like("dx", op.dx, op.x);
  c.is("dw", op.dw, accumulator, {columns});
  c.is_optional("db", op.db, accumulator, {columns});
  c.is_like("dy", op.dy, op.x);
  c.is("w", op.w, op.x.dtype(), {columns});
  c.is("mean", op.mean, accumulator, {rows});
  c.is("rstd", op.rstd, accumulator, {rows});
  return {.flops = 15 * static_cast<double>(op.x.count()),
          .bytes = bytes_of(op.dy, op.x, op.w, op.mean, op.rstd) + bytes_of_result(op.dx, op.to_dx) + bytes_of_result(op.dw, op.to_dw) +
                   bytes_of_result(op.db, op.to_dw)};
}

std::string shape(const LayerNorm& op) { return fmt::format("N={} C={}", op.x.size(0), op.x.size(1)); }
std::string shape(const LayerNorm::Backward& op) { return fmt::format("N={} C={}", op.x.size(0), op.x.size(1)); }

}  // namespace oxrse::ops

#include "engine/ops/rmsnorm.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {
namespace {

/// x is (N, C) or (N, H, C); the statistics have its sizes without the last.
void check_rows(const Checks& c, const ConstTensor& x, const ConstTensor& w, const ConstTensor& rstd) {
  c.floating("x", x, x.rank() == 3 ? 3 : 2, "(N, C) or (N, H, C)");
  c.that(x.size(-1) > 0, "x has rows without elements: {}", x.describe());
  c.is("rstd", rstd, accumulator_of(x.dtype()), x.sizes().first(x.sizes().size() - 1));
  c.contiguous("rstd", rstd);
  c.is("w", w, x.dtype(), {x.size(-1)});
}

std::string shape_of(const ConstTensor& x) {
  if (x.rank() == 2) return fmt::format("N={} C={}", x.size(0), x.size(1));
  return fmt::format("N={} H={} C={}", x.size(0), x.size(1), x.size(2));
}

}  // namespace

Cost check(const RmsNorm& op) {
  const Checks c(op);
  check_rows(c, op.x, op.w, op.rstd);
  c.is_like("y", op.y, op.x);
  c.that(op.eps >= 0, "eps must not be negative, got {}", op.eps);
  return {.flops = 4 * static_cast<double>(op.x.count()), .bytes = bytes_of(op.x, op.y, op.rstd, op.w)};
}

Cost check(const RmsNorm::Backward& op) {
  const Checks c(op);
  check_rows(c, op.x, op.w, op.rstd);
  c.is_like("dx", op.dx, op.x);
  c.is_like("dy", op.dy, op.x);
  c.is("dw", op.dw, accumulator_of(op.x.dtype()), {op.x.size(-1)});
  return {.flops = 11 * static_cast<double>(op.x.count()),
          .bytes = bytes_of(op.dy, op.x, op.w, op.rstd) + bytes_of_result(op.dx, op.to_dx) + bytes_of_result(op.dw, op.to_dw)};
}

std::string shape(const RmsNorm& op) { return shape_of(op.x); }
std::string shape(const RmsNorm::Backward& op) { return shape_of(op.x); }

}  // namespace oxrse::ops

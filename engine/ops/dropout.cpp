#include "engine/ops/dropout.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {

Cost check(const Dropout& op) {
  const Checks c(op);
  c.floating("x", op.x, 2, "(N, C)");
  c.is_like("y", op.y, op.x);
  c.is_optional("residual", op.residual, op.x.dtype(), {op.x.size(0), op.x.size(1)});
  c.that(op.p >= 0 && op.p < 1, "p must be in [0, 1), got {}", op.p);
  c.that(op.first_row >= 0, "first_row must not be negative, got {}", op.first_row);
  return {.flops = 2 * static_cast<double>(op.x.count()), .bytes = bytes_of(op.y, op.x, op.residual)};
}

std::string shape(const Dropout& op) { return fmt::format("N={} C={}", op.x.size(0), op.x.size(1)); }

}  // namespace oxrse::ops

#include "engine/ops/linear.h"

#include "engine/ops/activation.h"
#include "engine/ops/checks.h"

namespace oxrse::ops {
namespace {

std::string sizes(std::int64_t n, std::int64_t i, std::int64_t o) { return fmt::format("N={} I={} O={}", n, i, o); }

double product_flops(std::int64_t n, std::int64_t i, std::int64_t o) {
  return 2.0 * static_cast<double>(n) * static_cast<double>(i) * static_cast<double>(o);
}

}  // namespace

Cost check(const Linear& op) {
  const Checks checks(op);
  checks.floating("x", op.x, 2, "(N, I)");
  checks.floating("w", op.w, 2, "(O, I)");
  const DType type = op.x.dtype();
  const std::int64_t n = op.x.size(0), i = op.x.size(1), o = op.w.size(0);
  checks.is("w", op.w, type, {o, i});
  checks.contiguous("w", op.w);
  checks.is("y", op.y, type, {n, o});
  checks.is_optional("bias", op.bias, type, {o});
  checks.is_optional("residual", op.residual, type, {n, o});
  Cost cost{product_flops(n, i, o), bytes_of(op.y, op.x, op.w, op.bias, op.residual)};
  if (op.gelu.present()) {
    checks.that(!op.residual.present(), "gelu and residual are both present");
    checks.is_like("gelu", op.gelu, op.y);
    cost += {check(Gelu{.y = op.gelu, .x = op.y}).flops, bytes_of(op.gelu)};
  }
  return cost;
}

Cost check(const Linear::Backward& op) {
  const Checks checks(op);
  checks.floating("dy", op.dy, 2, "(N, O)");
  checks.that(op.dx.present() || op.dw.present() || op.dbias.present(), "none of dx, dw and dbias is present");
  const DType type = op.dy.dtype();
  const std::int64_t n = op.dy.size(0), o = op.dy.size(1);
  Cost cost{0, bytes_of(op.dy)};
  if (op.dx.present()) {
    checks.floating("w", op.w, 2, "(O, I)");
    checks.is("w", op.w, type, {o, op.w.size(1)});
    checks.contiguous("w", op.w);
    checks.is("dx", op.dx, type, {n, op.w.size(1)});
    cost += {product_flops(n, op.w.size(1), o), bytes_of(op.w) + bytes_of_result(op.dx, op.to_dx)};
  }
  if (op.before.present()) {
    checks.that(op.dx.present() && op.to_dx == Write::Assign, "before is present, but dx is absent or added to");
    checks.is_like("before", op.before, op.dx);
    cost += {check(Gelu::Backward{.dx = op.dx, .dy = op.dx, .x = op.before}).flops, bytes_of(op.before)};
  }
  if (op.dw.present()) {
    checks.floating("x", op.x, 2, "(N, I)");
    checks.is("x", op.x, type, {n, op.x.size(1)});
    checks.is("dw", op.dw, accumulator_of(type), {o, op.x.size(1)});
    cost += {product_flops(n, op.x.size(1), o), bytes_of(op.x) + bytes_of_result(op.dw, op.to_dw)};
  }
  if (op.dbias.present()) {
    checks.is("dbias", op.dbias, accumulator_of(type), {o});
    cost += {static_cast<double>(n) * static_cast<double>(o), bytes_of_result(op.dbias, op.to_dw)};
  }
  return cost;
}

std::string shape(const Linear& op) { return sizes(op.x.size(0), op.x.size(1), op.w.size(0)); }

std::string shape(const Linear::Backward& op) {
  const ConstTensor& input = op.x.present() ? op.x : op.w;
  return sizes(op.dy.size(0), input.present() ? input.size(1) : 0, op.dy.size(1));
}

}  // namespace oxrse::ops

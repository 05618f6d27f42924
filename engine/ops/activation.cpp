#include "engine/ops/activation.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {
namespace {

std::string shape_of(const ConstTensor& x) { return fmt::format("N={} I={}", x.size(0), x.size(1)); }

}  // namespace

// Exponentials count as 10 floating-point operations, what their polynomial takes.

Cost check(const Gelu& op) {
  const Checks c(op);
  c.floating("x", op.x, 2, "(N, I)");
  c.is_like("y", op.y, op.x);
  return {.flops = 18 * static_cast<double>(op.x.count()), .bytes = bytes_of(op.x, op.y)};
}

Cost check(const Gelu::Backward& op) {
  const Checks c(op);
  c.floating("x", op.x, 2, "(N, I)");
  c.is_like("dx", op.dx, op.x);
  c.is_like("dy", op.dy, op.x);
  return {.flops = 28 * static_cast<double>(op.x.count()), .bytes = bytes_of(op.dx, op.dy, op.x)};
}

Cost check(const SwiGlu& op) {
  const Checks c(op);
  c.floating("gate", op.gate, 2, "(N, I)");
  c.is_like("up", op.up, op.gate);
  c.is_like("y", op.y, op.gate);
  return {.flops = 14 * static_cast<double>(op.y.count()), .bytes = bytes_of(op.y, op.gate, op.up)};
}

Cost check(const SwiGlu::Backward& op) {
  const Checks c(op);
  c.floating("gate", op.gate, 2, "(N, I)");
  c.is_like("up", op.up, op.gate);
  c.is_like("dy", op.dy, op.gate);
  c.is_like("dgate", op.dgate, op.gate);
  c.is_like("dup", op.dup, op.gate);
  return {.flops = 20 * static_cast<double>(op.dy.count()), .bytes = bytes_of(op.dgate, op.dup, op.dy, op.gate, op.up)};
}

std::string shape(const Gelu& op) { return shape_of(op.x); }
std::string shape(const Gelu::Backward& op) { return shape_of(op.x); }
std::string shape(const SwiGlu& op) { return shape_of(op.gate); }
std::string shape(const SwiGlu::Backward& op) { return shape_of(op.gate); }

}  // namespace oxrse::ops

#include "engine/ops/elementwise.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {
namespace {

/// Floating, of any sizes, without gaps.
void check_flat(const Checks& c, std::string_view argument, const ConstTensor& t) {
  c.that(is_floating(t.dtype()), "{} must be a floating tensor, got {}", argument, t.describe());
  c.contiguous(argument, t);
}

std::string shape_of(const ConstTensor& t) { return fmt::format("count={}", t.count()); }

}  // namespace

Cost check(const Fill& op) {
  check_flat(Checks(op), "y", op.y);
  return {.flops = 0, .bytes = bytes_of(op.y)};
}

Cost check(const FillNormal& op) {
  const Checks c(op);
  check_flat(c, "y", op.y);
  c.that(op.stddev >= 0, "stddev must not be negative, got {}", op.stddev);
  c.that(op.first_element >= 0, "first_element must not be negative, got {}", op.first_element);
  return {.flops = 0, .bytes = bytes_of(op.y)};
}

Cost check(const Cast& op) {
  const Checks c(op);
  check_flat(c, "x", op.x);
  check_flat(c, "y", op.y);
  c.that(op.x.count() == op.y.count(), "y must have as many elements as x {}, got {}", op.x.describe(), op.y.describe());
  return {.flops = 0, .bytes = bytes_of(op.x, op.y)};
}

Cost check(const Add& op) {
  const Checks c(op);
  check_flat(c, "a", op.a);
  check_flat(c, "b", op.b);
  check_flat(c, "y", op.y);
  const auto like_a = [&](const ConstTensor& t) { return t.dtype() == op.a.dtype() && t.count() == op.a.count(); };
  c.that(like_a(op.b), "b must have the type and number of elements of a {}, got {}", op.a.describe(), op.b.describe());
  c.that(like_a(op.y), "y must have the type and number of elements of a {}, got {}", op.a.describe(), op.y.describe());
  return {.flops = static_cast<double>(op.y.count()), .bytes = bytes_of(op.a, op.b, op.y)};
}

Cost check(const Sum& op) {
  const Checks c(op);
  check_flat(c, "x", op.x);
  c.is("sum", op.sum, DType::F64, {1});
  return {.flops = static_cast<double>(op.x.count()), .bytes = bytes_of(op.x, op.sum)};
}

std::string shape(const Fill& op) { return shape_of(op.y); }
std::string shape(const FillNormal& op) { return shape_of(op.y); }
std::string shape(const Cast& op) { return fmt::format("{} {}->{}", shape_of(op.x), name_of(op.x.dtype()), name_of(op.y.dtype())); }
std::string shape(const Add& op) { return shape_of(op.y); }
std::string shape(const Sum& op) { return shape_of(op.x); }

}  // namespace oxrse::ops

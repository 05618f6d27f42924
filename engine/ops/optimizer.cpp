#include "engine/ops/optimizer.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {
namespace {

/// "parameter 3 weight"
std::string part(std::size_t i, std::string_view what) { return fmt::format("parameter {} {}", i, what); }

std::int64_t total(std::span<const ParameterSlice> parameters) {
  std::int64_t count = 0;
  for (const ParameterSlice& p : parameters) count += p.weight.count();
  return count;
}

/// A state of the parameter: of its weight's type and length.
void check_like_weight(const Checks& c, std::size_t i, std::string_view what, const ConstTensor& t, const Tensor& weight) {
  if (t.dtype() == weight.dtype() && t.count() == weight.count() && t.contiguous()) return;
  c.that(false, "{} must be contiguous and like weight {}, got {}", part(i, what), weight.describe(), t.describe());
}

/// Returns the bytes of weights, copies in the compute type and gradients, read and written.
double check_slices(const Checks& c, std::span<const ParameterSlice> parameters) {
  double bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSlice& p = parameters[i];
    if (!((p.weight.dtype() == DType::F32 || p.weight.dtype() == DType::F64) && p.weight.contiguous())) {
      c.that(false, "{} must be contiguous f32 or f64, got {}", part(i, "weight"), p.weight.describe());
    }
    check_like_weight(c, i, "gradient", p.gradient, p.weight);
    if (p.compute.present() && !(is_floating(p.compute.dtype()) && p.compute.count() == p.weight.count() && p.compute.contiguous())) {
      c.that(false, "{} must be contiguous, floating and as long as weight {}, got {}", part(i, "compute"), p.weight.describe(),
             p.compute.describe());
    }
    bytes += 2 * bytes_of(p.weight) + bytes_of(p.compute, p.gradient);
  }
  return bytes;
}

std::string shape_of(std::span<const ParameterSlice> parameters) {
  return fmt::format("parameters={} count={}", parameters.size(), total(parameters));
}

}  // namespace

Cost check(const SumSquares& op) {
  const Checks c(op);
  c.is("sums", op.sums, DType::F64, {static_cast<std::int64_t>(op.tensors.size())});
  std::int64_t count = 0;
  double bytes = bytes_of(op.sums);
  for (std::size_t i = 0; i < op.tensors.size(); ++i) {
    const ConstTensor& t = op.tensors[i];
    if (!(is_floating(t.dtype()) && t.contiguous())) c.that(false, "tensor {} must be contiguous and floating, got {}", i, t.describe());
    count += t.count();
    bytes += bytes_of(t);
  }
  return {.flops = 2 * static_cast<double>(count), .bytes = bytes};
}

Cost check(const ClipFactor& op) {
  const Checks c(op);
  c.is("control", op.control, DType::F64, {kControlColumns});
  c.vector("sums", op.sums, DType::F64, "(P)");
  c.that(op.clip >= 0, "clip must not be negative, got {}", op.clip);
  return {.flops = static_cast<double>(op.sums.count()), .bytes = bytes_of(op.sums) + 2 * bytes_of(op.control)};
}

Cost check(const AdamW& op) {
  const Checks c(op);
  c.is("control", op.control, DType::F64, {kControlColumns});
  double bytes = check_slices(c, op.parameters);
  for (std::size_t i = 0; i < op.parameters.size(); ++i) {
    const ParameterSlice& p = op.parameters[i];
    check_like_weight(c, i, "first", p.first, p.weight);
    check_like_weight(c, i, "second", p.second, p.weight);
    bytes += 2 * bytes_of(p.first, p.second);
  }
  c.that(op.beta1 >= 0 && op.beta1 < 1, "beta1 must be in [0, 1), got {}", op.beta1);
  c.that(op.beta2 >= 0 && op.beta2 < 1, "beta2 must be in [0, 1), got {}", op.beta2);
  c.that(op.eps >= 0, "eps must not be negative, got {}", op.eps);
  return {.flops = 15 * static_cast<double>(total(op.parameters)), .bytes = bytes};
}

Cost check(const Sgd& op) {
  const Checks c(op);
  c.is("control", op.control, DType::F64, {kControlColumns});
  double bytes = check_slices(c, op.parameters);
  for (std::size_t i = 0; i < op.parameters.size(); ++i) {
    const ParameterSlice& p = op.parameters[i];
    if (op.momentum == 0 && !p.first.present()) continue;
    check_like_weight(c, i, "first", p.first, p.weight);
    bytes += 2 * bytes_of(p.first);
  }
  c.that(op.momentum >= 0 && op.momentum < 1, "momentum must be in [0, 1), got {}", op.momentum);
  return {.flops = 7 * static_cast<double>(total(op.parameters)), .bytes = bytes};
}

Cost check(const RoundAtRandom& op) {
  const Checks c(op);
  c.is("x", op.x, DType::F32, op.y.sizes());
  c.is("y", op.y, DType::BF16, op.x.sizes());
  c.contiguous("x", op.x);
  c.contiguous("y", op.y);
  c.is("control", op.control, DType::F64, {kControlColumns});
  c.that(op.first_element >= 0 && op.first_element % 8 == 0, "first_element must be a multiple of 8, got {}", op.first_element);
  return {.flops = 0, .bytes = bytes_of(op.y, op.x)};
}

std::string shape(const SumSquares& op) {
  std::int64_t count = 0;
  for (const ConstTensor& t : op.tensors) count += t.count();
  return fmt::format("tensors={} count={}", op.tensors.size(), count);
}
std::string shape(const ClipFactor& op) { return fmt::format("tensors={}", op.sums.size(0)); }
std::string shape(const AdamW& op) { return shape_of(op.parameters); }
std::string shape(const Sgd& op) { return shape_of(op.parameters); }
std::string shape(const RoundAtRandom& op) { return fmt::format("count={}", op.x.count()); }

}  // namespace oxrse::ops

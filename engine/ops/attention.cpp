#include "engine/ops/attention.h"

#include <algorithm>

#include "engine/ops/checks.h"

namespace oxrse::ops {
namespace {

struct Sizes {
  std::int64_t b, t, s, h, k, d;
};

/// What forward and backward have in common: q, k, v, document_start, scale and window.
template <class Op>
Sizes check_inputs(const Checks& checks, const Op& op) {
  checks.floating("q", op.q, 4, "(B, T, H, D)");
  checks.floating("k", op.k, 4, "(B, S, K, D)");
  const Sizes n{op.q.size(0), op.q.size(1), op.k.size(1), op.q.size(2), op.k.size(2), op.q.size(3)};
  checks.that(n.d >= 1, "q must have a head width D of at least 1, got {}", op.q.describe());
  checks.that(n.k >= 1 && n.h % n.k == 0, "the {} query heads of q must be a multiple of the {} heads of k", n.h, n.k);
  checks.is("k", op.k, op.q.dtype(), {n.b, n.s, n.k, n.d});
  checks.is("v", op.v, op.q.dtype(), {n.b, n.s, n.k, n.d});
  checks.is_optional("document_start", op.document_start, DType::I32, {n.b, n.t});
  checks.that(op.scale > 0, "scale must be above 0, got {}", op.scale);
  checks.that(op.window >= 0, "window must be 0 (no limit) or a number of positions, got {}", op.window);
  return n;
}

/// Pairs (t, s) of one head that attend, documents aside.
double visible_pairs(std::int64_t t, std::int64_t s, std::int64_t window) {
  double pairs = 0;
  for (std::int64_t i = 0; i < t; ++i) {
    const std::int64_t end = std::clamp<std::int64_t>(i + s - t + 1, 0, s);
    pairs += static_cast<double>(window > 0 ? std::min(window, end) : end);
  }
  return pairs;
}

/// Two products of length D a pair and head.
double product_flops(const Sizes& n, std::int64_t window) {
  return 4.0 * static_cast<double>(n.b * n.h) * static_cast<double>(n.d) * visible_pairs(n.t, n.s, window);
}

std::string text_of(const ConstTensor& q, const ConstTensor& k, std::int64_t window) {
  std::string text = fmt::format("B={} T={} S={} H={} K={} D={}", q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3));
  if (window > 0) text += fmt::format(" window={}", window);
  return text;
}

}  // namespace

Cost check(const Attention& op) {
  const Checks checks(op);
  const Sizes n = check_inputs(checks, op);
  checks.is_like("o", op.o, op.q);
  checks.is("lse", op.lse, accumulator_of(op.q.dtype()), {n.b, n.h, n.t});
  checks.contiguous("lse", op.lse);
  return {product_flops(n, op.window), bytes_of(op.o, op.lse, op.q, op.k, op.v, op.document_start)};
}

Cost check(const Attention::Backward& op) {
  const Checks checks(op);
  const Sizes n = check_inputs(checks, op);
  checks.is_like("dq", op.dq, op.q);
  checks.is_like("dk", op.dk, op.k);
  checks.is_like("dv", op.dv, op.v);
  checks.is_like("d_o", op.d_o, op.q);
  checks.is_like("o", op.o, op.q);
  for (const auto& [name, t] : {std::pair<std::string_view, ConstTensor>{"lse", op.lse}, {"delta", op.delta}}) {
    checks.is(name, t, accumulator_of(op.q.dtype()), {n.b, n.h, n.t});
    checks.contiguous(name, t);
  }
  return {2.5 * product_flops(n, op.window),
          bytes_of(op.dq, op.dk, op.dv, op.delta, op.d_o, op.o, op.lse, op.q, op.k, op.v, op.document_start)};
}

std::string shape(const Attention& op) { return text_of(op.q, op.k, op.window); }
std::string shape(const Attention::Backward& op) { return text_of(op.q, op.k, op.window); }

}  // namespace oxrse::ops

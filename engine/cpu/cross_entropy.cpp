#include "engine/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/cpu/convert.h"
#include "engine/cpu/math.h"
#include "engine/cpu/parallel.h"

namespace oxrse::ops {
namespace {

template <class T>
accumulator_t<T> maximum(const T* x, std::int64_t count) {
  using R = accumulator_t<T>;
  R result = -std::numeric_limits<R>::infinity();
#pragma omp simd reduction(max : result)
  for (std::int64_t i = 0; i < count; ++i) result = static_cast<R>(x[i]) > result ? static_cast<R>(x[i]) : result;
  return result;
}

/// In f64: added to the 1 of the largest logit in f32, small exponentials would each lose their last digits.
template <class T>
double sum_exponentials(const T* x, std::int64_t count, accumulator_t<T> base) {
  using R = accumulator_t<T>;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(cpu::exponential(static_cast<R>(x[i]) - base));
  return sum;
}

/// A row of equal logits.
template <class T>
void uniform_row(const CrossEntropy& op, accumulator_t<T>& loss, T* dx, std::int32_t target) {
  loss = static_cast<accumulator_t<T>>(std::log(static_cast<double>(op.vocab)));
  if (dx == nullptr) return;
  const double share = 1 / static_cast<double>(op.vocab);
  const auto value = [&](double p) { return T(static_cast<accumulator_t<T>>(op.scale * p)); };
  std::fill_n(dx, op.vocab, value(share));
  dx[target] = value(share - 1);
  std::fill(dx + op.vocab, dx + op.logits.size(1), T(0.0F));
}

/// Loss and gradient of a row. Everything is relative to the row's maximum: an exponential of x - lse would lose the digits that a large
/// lse has before the point.
template <class T>
void row(const CrossEntropy& op, std::int64_t n) {
  using R = accumulator_t<T>;
  const std::int32_t target = op.targets.data<std::int32_t>()[n];
  const T* x = op.logits.data<T>() + n * op.logits.stride(0);
  T* dx = op.dlogits.present() ? op.dlogits.data<T>() + n * op.dlogits.stride(0) : nullptr;
  R& loss = op.loss.data<R>()[n];
  if (target == kIgnoredTarget) {
    loss = 0;
    if (dx != nullptr) std::fill_n(dx, op.logits.size(1), T(0.0F));
    return;
  }
  R base = maximum(x, op.vocab);
  if (base == -std::numeric_limits<R>::infinity()) base = 0;
  const double sum = sum_exponentials(x, op.vocab, base);
  if (sum == 0) return uniform_row<T>(op, loss, dx, target);  // every logit is -inf
  loss = static_cast<R>(std::log(sum)) + (base - static_cast<R>(x[target]));
  if (dx == nullptr) return;
  const R scale = static_cast<R>(op.scale), factor = static_cast<R>(op.scale / sum);
  const R at_target = factor * cpu::exponential(static_cast<R>(x[target]) - base) - scale;
#pragma omp simd
  for (std::int64_t i = 0; i < op.vocab; ++i) dx[i] = cpu::convert<T>(factor * cpu::exponential(static_cast<R>(x[i]) - base));
  dx[target] = T(at_target);
  std::fill(dx + op.vocab, dx + op.logits.size(1), T(0.0F));
}

}  // namespace

void launch(Cpu& cpu, const CrossEntropy& op) {
  check_data(op);
  visit_floating(op.logits.dtype(), [&](auto tag) {
    cpu::parallel_for(cpu, op.logits.size(0), [&](std::int64_t n) { row<typename decltype(tag)::type>(op, n); });
  });
}

}  // namespace oxrse::ops

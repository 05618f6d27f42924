#include "engine/ops/cross_entropy.h"

#include "engine/ops/checks.h"

namespace oxrse::ops {

void check_data(const CrossEntropy& op) {
  const auto* targets = op.targets.data<std::int32_t>();
  for (std::int64_t n = 0; n < op.targets.size(0); ++n) {
    require(targets[n] == kIgnoredTarget || (0 <= targets[n] && targets[n] < op.vocab),
            "cross_entropy: the target of row {} is {}, expected a token in [0, {}) or {} for a row to ignore", n, targets[n], op.vocab,
            kIgnoredTarget);
  }
}

Cost check(const CrossEntropy& op) {
  const Checks checks(op);
  checks.floating("logits", op.logits, 2, "(N, V)");
  const std::int64_t n = op.logits.size(0), v = op.logits.size(1);
  checks.is("loss", op.loss, accumulator_of(op.logits.dtype()), {n});
  checks.is("targets", op.targets, DType::I32, {n});
  if (op.dlogits.present()) checks.is_like("dlogits", op.dlogits, op.logits);
  checks.that(1 <= op.vocab && op.vocab <= v, "vocab must be in [1, {}], the columns of logits, got {}", v, op.vocab);
  // Maximum, difference, exponential and sum; exponential and product again for the gradient.
  const double per_element = op.dlogits.present() ? 7 : 4;
  return {per_element * static_cast<double>(n) * static_cast<double>(op.vocab), bytes_of(op.logits, op.dlogits, op.loss, op.targets)};
}

std::string shape(const CrossEntropy& op) {
  return fmt::format("N={} V={}{}", op.logits.size(0), op.logits.size(1), op.dlogits.present() ? "" : " loss only");
}

}  // namespace oxrse::ops

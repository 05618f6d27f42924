#include "engine/ops/checks.h"

#include <algorithm>

namespace oxrse::ops {
namespace {

std::string describe(DType type, std::span<const std::int64_t> sizes) {
  return fmt::format("{}({})", name_of(type), fmt::join(sizes, ", "));
}

}  // namespace

void Checks::floating(std::string_view argument, const ConstTensor& t, int rank, std::string_view dims) const {
  if (is_floating(t.dtype()) && t.rank() == rank) return;
  that(false, "{} must be a floating tensor {}, got {}", argument, dims, t.describe());
}

void Checks::vector(std::string_view argument, const ConstTensor& t, DType type, std::string_view dims) const {
  if (t.dtype() == type && t.rank() == 1) return;
  that(false, "{} must be {} {}, got {}", argument, name_of(type), dims, t.describe());
}

void Checks::is(std::string_view argument, const ConstTensor& t, DType type, std::span<const std::int64_t> sizes) const {
  if (t.dtype() == type && std::ranges::equal(t.sizes(), sizes)) return;
  that(false, "{} must be {}, got {}", argument, describe(type, sizes), t.describe());
}

void Checks::contiguous(std::string_view argument, const ConstTensor& t) const {
  if (t.contiguous()) return;
  that(false, "{} must be contiguous, got {} with strides ({})", argument, t.describe(),
       fmt::join(std::span(t.raw_strides().data(), t.sizes().size()), ", "));
}

}  // namespace oxrse::ops

#include "io/data/length_histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace oxrse::io {
namespace {

constexpr std::int64_t kWidth = 40;  // of the longest bar

/// The lengths of a bin: "0", "1", "8-15".
std::string range_of(std::size_t bits) {
  const std::int64_t last = (std::int64_t{1} << bits) - 1;
  const std::int64_t first = (last + 1) / 2;
  return bits < 2 ? fmt::format("{}", last) : fmt::format("{}-{}", first, last);
}

}  // namespace

void LengthHistogram::add(std::int64_t length) {
  least_ = count_ == 0 ? length : std::min(least_, length);
  greatest_ = std::max(greatest_, length);
  ++count_;
  sum_ += length;
  ++bins_[std::bit_width(static_cast<std::uint64_t>(length))];
}

std::string LengthHistogram::text(std::string_view unit) const {
  if (count_ == 0) return "documents: none\n";
  std::string text = fmt::format("documents: {}, of {} to {} {}, {:.1f} on average\n", count_, least_, greatest_, unit,
                                 static_cast<double>(sum_) / static_cast<double>(count_));
  const std::int64_t longest = *std::max_element(bins_.begin(), bins_.end());
  const auto first = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(least_)));
  const auto last = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(greatest_)));
  for (std::size_t bits = first; bits <= last; ++bits) {
    const std::int64_t bar = (bins_[bits] * kWidth + longest - 1) / longest;  // what is there at all shows
    text +=
        fmt::format("{:>20} {}{}{}\n", range_of(bits), std::string(static_cast<std::size_t>(bar), '#'), bar > 0 ? " " : "", bins_[bits]);
  }
  return text;
}

}  // namespace oxrse::io

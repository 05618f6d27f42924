#include "benchmarks/samples.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/core/error.h"

namespace oxrse::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Samples summarize(std::vector<double> seconds) {
  require(!seconds.empty(), "no timings to summarize");
  std::sort(seconds.begin(), seconds.end());
  const auto n = static_cast<double>(seconds.size());
  double mean = 0, variance = 0;
  for (const double s : seconds) mean += s / n;
  for (const double s : seconds) variance += (s - mean) * (s - mean) / n;
  return {.median = quantile(seconds, 0.5),
          .p20 = quantile(seconds, 0.2),
          .p80 = quantile(seconds, 0.8),
          .least = seconds.front(),
          .spread = mean > 0 ? std::sqrt(variance) / mean : 0,
          .count = static_cast<std::int64_t>(seconds.size())};
}

Samples measure(const Patience& patience, const std::function<void(std::int64_t)>& body) {
  return measure_seconds(patience, [&](std::int64_t i) {
    const auto start = Clock::now();
    body(i);
    return seconds_since(start);
  });
}

Samples measure_seconds(const Patience& patience, const std::function<double(std::int64_t)>& seconds) {
  constexpr std::int64_t kWarmUp = 2;
  for (std::int64_t i = 0; i < kWarmUp; ++i) seconds(i);
  std::vector<double> timings;
  const auto begin = Clock::now();
  while (seconds_since(begin) < patience.seconds || std::ssize(timings) < patience.fewest) {
    timings.push_back(seconds(kWarmUp + std::ssize(timings)));
    const std::int64_t n = std::ssize(timings);
    if (n >= patience.fewest && n % patience.fewest == 0 && summarize(timings).spread < patience.spread) break;
  }
  return summarize(std::move(timings));
}

}  // namespace oxrse::bench

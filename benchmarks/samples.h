#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace oxrse::bench {

/// What repeated timings of one thing say, in seconds.
struct Samples {
  double median = 0;
  double p20 = 0, p80 = 0;
  double least = 0;
  double spread = 0;  // standard deviation / mean
  std::int64_t count = 0;
};

/// Quantiles are interpolated between the two nearest of the sorted values.
Samples summarize(std::vector<double> seconds);

/// When to stop measuring: when the standard deviation is below `spread` of the mean, but not before `fewest` timings, or when `seconds`
/// have passed.
struct Patience {
  double seconds = 0.5;
  double spread = 0.005;
  std::int64_t fewest = 8;
};

/// Times `body(i)`, i = 0, 1, ..., after two calls to warm up.
Samples measure(const Patience& patience, const std::function<void(std::int64_t)>& body);
/// The same of what times itself: `seconds(i)`.
Samples measure_seconds(const Patience& patience, const std::function<double(std::int64_t)>& seconds);

}  // namespace oxrse::bench

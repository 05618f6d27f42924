#include "benchmarks/samples.h"

#include <cmath>

#include "engine/core/error.h"
#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::bench;

TEST_CASE("quantiles of timings in any order") {
  const Samples s = summarize({5, 1, 4, 2, 3, 6});
  CHECK(s.count == 6);
  CHECK(s.least == 1);
  CHECK(s.p20 == Approx(2));
  CHECK(s.median == Approx(3.5));
  CHECK(s.p80 == Approx(5));
  CHECK(s.spread == Approx(std::sqrt(35.0 / 12) / 3.5));
}

TEST_CASE("one timing is its own median; none is an error") {
  const Samples s = summarize({0.25});
  CHECK(s.median == 0.25);
  CHECK(s.p20 == 0.25);
  CHECK(s.p80 == 0.25);
  CHECK(s.spread == 0);
  CHECK_THROWS_AS(summarize({}), Error);
}

TEST_CASE("an outlier moves the spread, not the median") {
  const Samples s = summarize({1, 1, 1, 1, 1, 1, 1, 100});
  CHECK(s.median == 1);
  CHECK(s.spread > 1);
}

TEST_CASE("measuring warms up, counts on and stops when time is up") {
  std::vector<std::int64_t> calls;
  const Samples s = measure({.seconds = 0, .spread = 0, .fewest = 5}, [&](std::int64_t i) { calls.push_back(i); });
  CHECK(s.count == 5);
  REQUIRE(calls.size() == 7);  // two to warm up
  for (std::size_t i = 0; i < calls.size(); ++i) CHECK(calls[i] == static_cast<std::int64_t>(i));
}

TEST_CASE("measuring stops early when timings agree") {
  const Samples s = measure({.seconds = 60, .spread = 1e9, .fewest = 8}, [](std::int64_t /*i*/) {});
  CHECK(s.count == 8);
}

#include "engine/train/advice.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/catch.h"
#include "tests/io/temporary.h"

using namespace oxrse;
using train::SaveCost;

namespace {

/// Trains `work` seconds with failures at random and returns the part of the time that was lost.
double simulated_waste(double interval, const SaveCost& cost, double mtbf, double work, std::mt19937_64& random) {
  std::exponential_distribution<double> failures(1 / mtbf);
  double time = 0, done = 0, next = failures(random);
  while (done < work) {
    double begin = time;
    if (begin + interval + cost.stall <= next) {
      time = begin + interval + cost.stall;
      done += interval;
    } else {  // back to the last checkpoint, and what is lost beyond it
      time = next;
      double end = time + cost.delay;
      next = time + failures(random);
      while (next < end) {  // failures while that is done again
        time = next;
        end = time + cost.delay;
        next = time + failures(random);
      }
      time = end;
    }
  }
  return 1 - done / time;
}

TEST_CASE("the expected waste is that of simulated failures", "[train]") {
  std::mt19937_64 random(1);
  for (const auto& [interval, cost, mtbf] :
       {std::tuple(60.0, SaveCost{.stall = 2, .delay = 0}, 3600.0), std::tuple(600.0, SaveCost{.stall = 30, .delay = 60}, 3600.0),
        std::tuple(2000.0, SaveCost{.stall = 300, .delay = 100}, 1800.0)}) {
    CAPTURE(interval, cost.stall, mtbf);
    const double expected = train::expected_waste(interval, cost, mtbf);
    const double simulated = simulated_waste(interval, cost, mtbf, 2e4 * mtbf, random);
    CHECK(simulated == Approx(expected).epsilon(0.03));
  }
}

TEST_CASE("no other interval loses less than the best", "[train]") {
  for (const double mtbf : {600.0, 36'000.0, 864'000.0}) {
    for (const double stall : {0.01, 1.0, 60.0, 300.0}) {
      const SaveCost cost{.stall = stall};
      const double best = train::best_interval(stall, mtbf), least = train::expected_waste(best, cost, mtbf);
      CAPTURE(mtbf, stall, best);
      for (double factor = 0.2; factor < 5; factor *= 1.01) {
        CHECK(train::expected_waste(best * factor, cost, mtbf) > least * 0.999);  // the formula is an expansion
      }
    }
  }
  CHECK(train::best_interval(5000, 1000) == 1000);
}

TEST_CASE("advice says what is best and what the setting costs", "[train]") {
  const std::string text = train::advise({.stall = 2, .delay = 0, .step = 0.5}, 1, 1000);
  CHECK_THAT(text, Catch::Contains("every 1 h") && Catch::Contains("237 steps") && Catch::Contains("every 1000 steps, as now") &&
                       Catch::Contains("Young/Daly"));
  CHECK(train::advise({.stall = 2}, 1, 1000).find("as now") == std::string::npos);
}

TEST_CASE("costs are read from what a run recorded", "[train]") {
  const io::TemporaryDirectory dir;
  CHECK_FALSE(train::recorded_cost(dir / "absent.jsonl").has_value());
  io::put(dir / "metrics.jsonl",
          "{\"step\":1,\"step_ms\":100.0,\"checkpoint_ms\":0.0}\n{\"step\":2,\"step_ms\":300.0,\"checkpoint_ms\":40.0}\n"
          "{\"step\":2,\"val_loss\":1.0}\n{\"step\":3,\"step_ms\":200.0,\"checkpoint_ms\":0.0}\nhalf a li");
  const auto cost = train::recorded_cost(dir / "metrics.jsonl");
  REQUIRE(cost.has_value());
  CHECK(cost->stall == Approx(0.04));
  CHECK(cost->step == Approx(0.2));
  CHECK(train::estimated_cost(1 << 30).stall > 0);
}

}  // namespace

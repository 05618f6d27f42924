#include <cmath>

#include "engine/optim/config.h"
#include "tests/catch.h"

using oxrse::optim::learning_rate;
using oxrse::optim::OptimizerConfig;

namespace {

OptimizerConfig with(const char* schedule, std::int64_t warmup = 10) {
  OptimizerConfig config;
  config.lr = 1e-3;
  config.min_lr = 1e-4;
  config.warmup_steps = warmup;
  config.schedule = schedule;
  return config;
}

}  // namespace

TEST_CASE("the first step of a warm-up has a rate above zero, the last one the peak", "[optim]") {
  for (const char* schedule : {"cosine", "linear", "constant", "wsd"}) {
    CHECK(learning_rate(with(schedule), 0, 100) == Approx(1e-4).epsilon(1e-15));
    CHECK(learning_rate(with(schedule), 9, 100) == Approx(1e-3).epsilon(1e-15));
    CHECK(learning_rate(with(schedule, 0), 0, 100) == Approx(1e-3).epsilon(1e-15));
  }
}

TEST_CASE("schedules end where they should", "[optim]") {
  CHECK(learning_rate(with("cosine"), 100, 100) == 1e-4);
  CHECK(learning_rate(with("linear"), 100, 100) == Approx(1e-4).epsilon(1e-14));
  CHECK(learning_rate(with("wsd"), 100, 100) == Approx(1e-4).epsilon(1e-14));
  CHECK(learning_rate(with("constant"), 100, 100) == 1e-3);
  CHECK(learning_rate(with("cosine"), 55, 100) == Approx(5.5e-4).epsilon(1e-14));
  CHECK(learning_rate(with("linear"), 55, 100) == Approx(5.5e-4).epsilon(1e-14));
  CHECK(learning_rate(with("wsd"), 80, 100) == 1e-3);
  CHECK(learning_rate(with("wsd"), 90, 100) == Approx(5.5e-4).epsilon(1e-14));
}

TEST_CASE("fewer steps than the warm-up, and as many", "[optim]") {
  for (const char* schedule : {"cosine", "linear", "constant", "wsd"}) {
    for (std::int64_t s = 0; s < 10; ++s) {
      CHECK(learning_rate(with(schedule), s, 4) == Approx(1e-3 * static_cast<double>(s + 1) / 10));
      CHECK(learning_rate(with(schedule), s, 10) == Approx(1e-3 * static_cast<double>(s + 1) / 10));
    }
    CHECK(std::isfinite(learning_rate(with(schedule), 10, 10)));
    CHECK(std::isfinite(learning_rate(with(schedule, 0), 0, 0)));
  }
}

TEST_CASE("a minimum above the peak is refused", "[optim]") {
  OptimizerConfig config = with("cosine");
  config.min_lr = 1;
  CHECK_THROWS_WITH(config.validate(), Catch::Matchers::Contains("min_lr"));
}

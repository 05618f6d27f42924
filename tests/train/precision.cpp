#include <cmath>
#include <string>

#include "tests/catch.h"
#include "tests/train/fixture.h"

using namespace oxrse;
using namespace oxrse::train;

namespace {

/// Losses of a training of 500 steps in one compute type.
std::vector<double> losses_of(const std::string& compute) {
  Config config = testing::tiny_config();
  config.train.steps = 500;
  config.optimizer.lr = 3e-3;
  config.optimizer.min_lr = 3e-4;
  config.precision.compute = compute;
  config.precision.loss_scale.initial = 1024;  // low enough for every step to count
  testing::Fixture fixture(config);
  std::vector<double> losses;
  int skipped = 0;
  for (std::int64_t i = 0; i < config.train.steps; ++i) {
    const StepReport report = fixture.step(i);
    skipped += report.applied ? 0 : 1;
    losses.push_back(report.loss);
  }
  CHECK(skipped == 0);
  return losses;
}

/// Mean of the last epoch (12 steps).
double final_loss(const std::vector<double>& losses) {
  double sum = 0;
  for (std::size_t i = losses.size() - 12; i < losses.size(); ++i) sum += losses[i];
  return sum / 12;
}

}  // namespace

TEST_CASE("500 steps in bf16 and fp16 end where f32 ends") {
  const std::vector<double> f32 = losses_of("f32");
  const double expected = final_loss(f32);
  CHECK(expected < 0.6 * f32[0]);  // it learned, and stayed there
  for (const std::string compute : {"bf16", "fp16"}) {
    const std::vector<double> losses = losses_of(compute);
    INFO(compute << ": " << final_loss(losses) << ", f32: " << expected);
    CHECK(std::abs(final_loss(losses) - expected) <= 0.01 * expected);
    CHECK(losses != f32);  // it really was another type
  }
}

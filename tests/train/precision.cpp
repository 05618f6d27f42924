#include <cmath>
#include <cstring>
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

namespace {

Config stochastic_config() {
  Config config = testing::tiny_config();
  config.precision.compute = "bf16";
  config.precision.stochastic_rounding = true;
  return config;
}

/// Puts the masters and moments of one training into another, as a checkpoint does.
void copy_state(testing::Fixture& from, testing::Fixture& to) {
  const auto copy = [](const Tensor& a, const Tensor& b) { std::memcpy(b.address(), a.address(), static_cast<std::size_t>(a.bytes())); };
  const auto &old = from.training().parameters().parameters(), &now = to.training().parameters().parameters();
  for (std::size_t i = 0; i < old.size(); ++i) {
    copy(old[i].master, now[i].master);
    copy(from.training().optimizer().states()[i].exp_avg, to.training().optimizer().states()[i].exp_avg);
    copy(from.training().optimizer().states()[i].exp_avg_sq, to.training().optimizer().states()[i].exp_avg_sq);
  }
  to.training().parameters().cast(to.training().context());
  to.training().optimizer().set_updates(from.training().optimizer().updates());
  to.training().optimizer().round_weights(to.training().context());
}

}  // namespace

TEST_CASE("weights rounded at random: same bits on any number of threads and after a resume") {
  testing::Fixture one(stochastic_config(), 1), three(stochastic_config(), 3), resumed(stochastic_config(), 1);
  for (std::int64_t i = 0; i < 4; ++i) {
    one.step(i);
    three.step(i);
  }
  CHECK(one.bits() == three.bits());
  copy_state(one, resumed);
  for (std::int64_t i = 4; i < 8; ++i) {
    one.step(i);
    resumed.step(i);
  }
  CHECK(one.bits() == resumed.bits());
}

TEST_CASE("weights rounded at random differ from rounded weights, and learn as well") {
  Config nearest = stochastic_config();
  nearest.precision.stochastic_rounding = false;
  testing::Fixture random(stochastic_config()), plain(nearest);
  double random_loss = 0, plain_loss = 0;
  for (std::int64_t i = 0; i < 120; ++i) {
    random_loss = random.step(i).loss;
    plain_loss = plain.step(i).loss;
  }
  CHECK(random.bits() != plain.bits());
  CHECK(std::abs(random_loss - plain_loss) <= 0.1 * plain_loss);
}

TEST_CASE("random rounding is for bf16") {
  const JsonDocument document =
      parse_json(R"({"model": "small/tiny", "precision": {"compute": "f32", "stochastic_rounding": true}})", "x.json");
  CHECK_THROWS_WITH(load_config(document), Catch::Matchers::Contains("stochastic_rounding is for precision.compute bf16"));
}

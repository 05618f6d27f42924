#include <cmath>
#include <limits>

#include "engine/train/saving.h"
#include "tests/catch.h"
#include "tests/train/fixture.h"

using namespace oxrse;
using namespace oxrse::train;
using namespace oxrse::train::testing;
using optim::LossScaler;

TEST_CASE("the loss scale halves after overflows and doubles after good steps", "[loss-scale]") {
  LossScaler scaler({.initial = 1024, .window = 3, .hysteresis = 2, .minimum = 256});
  CHECK(scaler.scale() == 1024);
  scaler.update(false);
  CHECK(scaler.scale() == 1024);
  scaler.update(true);
  scaler.update(false);
  CHECK(scaler.scale() == 512);
  for (int i = 0; i < 2; ++i) scaler.update(true);
  CHECK(scaler.scale() == 512);
  scaler.update(true);
  CHECK(scaler.scale() == 1024);
  for (int i = 0; i < 4; ++i) scaler.update(false);
  CHECK(scaler.scale() == 256);
  scaler.update(false);
  CHECK_THROWS_WITH(scaler.update(false), Catch::Matchers::Contains("smallest loss scale 256"));
  LossScaler off;
  off.update(false);
  CHECK(off.scale() == 1);
  CHECK_FALSE(off.active());
}

TEST_CASE("short types train like f32", "[loss-scale]") {
  Config config = tiny_config();
  Fixture reference(config);
  config.precision.compute = GENERATE("bf16", "fp16");
  Fixture shorter(config);
  for (std::int64_t i = 0; i < 12; ++i) {
    const StepReport a = reference.step(i), b = shorter.step(i);
    CHECK(b.applied);
    CHECK(std::abs(a.loss - b.loss) <= 2e-2 * a.loss);
    CHECK(std::abs(a.grad_norm - b.grad_norm) <= 6e-2 * a.grad_norm);
  }
}

TEST_CASE("an overflow in fp16 skips the step and halves the scale; a checkpoint keeps the scaler", "[loss-scale]") {
  Config config = tiny_config();
  config.precision.compute = "fp16";
  config.precision.loss_scale.hysteresis = 1;
  Fixture fixture(config);
  fixture.step(0);
  const std::string before = fixture.bits();
  StepReport report;
  fixture.training().accumulate(&fixture.data(), 1, report);
  const ConstTensor gradient = fixture.training().gradients().sums()[0];
  const_cast<float*>(gradient.data<float>())[0] = std::numeric_limits<float>::infinity();
  fixture.training().update(report);
  CHECK_FALSE(report.applied);
  CHECK(report.loss_scale == 65536);
  CHECK(fixture.training().scaler().scale() == 32768);
  CHECK(fixture.bits() == before);
  fixture.step(2);
  CHECK(fixture.training().scaler().state().good_steps == 1);

  io::TemporaryDirectory directory;
  const auto no_warning = [](const std::string& text) { FAIL(text); };
  const Progress progress{.step = 3, .skipped = 1, .skipped_in_a_row = 0};
  io::save_checkpoint(directory.path(),
                      {.step = 3,
                       .state = checkpoint_state(fixture.training(), progress, fixture.config(), &fixture.data()),
                       .config = write_config(fixture.config()),
                       .tokenizer_json = ""},
                      checkpoint_entries(fixture.training(), fixture.config().checkpoint), 0, no_warning);
  Fixture resumed(fixture.config());
  const Progress restored = restore(resumed.training(), io::Checkpoint::open(directory.path(), no_warning), &resumed.data());
  CHECK(restored.step == 3);
  CHECK(restored.skipped == 1);
  CHECK(resumed.training().scaler().scale() == 32768);
  CHECK(resumed.training().scaler().state().good_steps == 1);
  CHECK(resumed.training().optimizer().updates() == 2);
  for (std::int64_t i = 3; i < 6; ++i) CHECK(resumed.step(i).loss == fixture.step(i).loss);
  CHECK(resumed.bits() == fixture.bits());
}

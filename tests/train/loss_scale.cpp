#include <array>
#include <cmath>
#include <limits>

#include "engine/train/saving.h"
#include "tests/catch.h"
#include "tests/comm/ranks.h"
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

TEST_CASE("an overflow on one rank: all skip and halve the scale, and a run that goes on has scale and counters", "[loss-scale][N10]") {
  Config config = tiny_config();
  config.precision.compute = "fp16";
  config.precision.loss_scale.hysteresis = 1;
  config.train.micro_batch = 1;
  const io::TemporaryDirectory directory;
  constexpr int kRanks = 3;
  std::array<std::vector<bool>, kRanks> applied;
  std::array<optim::LossScaler::State, kRanks> scalers;
  std::array<std::string, kRanks> bits;
  const auto errors = comm::testing::run_ranks(
      kRanks,
      [&](comm::Communicator& ranks) {
        const auto rank = static_cast<std::size_t>(ranks.rank());
        Fixture fixture(config, 1, &ranks);
        auto* weight = reinterpret_cast<std::uint16_t*>(fixture.training().parameters().parameters()[0].compute.address());
        for (std::int64_t step = 0; step < 7; ++step) {
          const std::uint16_t before = *weight;
          const bool overflows = step == 3 && rank == 1;
          if (overflows) *weight = 0x7C00;  // infinity
          applied[rank].push_back(fixture.step(step).applied);
          if (overflows) *weight = before;
          if (step != 5 || rank != 0) continue;
          io::save_checkpoint(
              directory.path(),
              {.step = 6,
               .state = checkpoint_state(fixture.training(), {.step = 6, .skipped = 1, .skipped_in_a_row = 0}, config, &fixture.data()),
               .config = write_config(config),
               .tokenizer_json = ""},
              checkpoint_entries(fixture.training(), config.checkpoint), 0, [](const std::string& text) { fail("{}", text); });
        }
        scalers[rank] = fixture.training().scaler().state();
        bits[rank] = fixture.bits();
      },
      {.choice = {.allowed = {}, .keep_tree = true}});
  for (const std::string& error : errors) CHECK(error.empty());
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    CHECK(applied[rank] == std::vector<bool>{true, true, true, false, true, true, true});
    CHECK(scalers[rank].scale == 32768);
    CHECK(scalers[rank].good_steps == 3);
    CHECK(bits[rank] == bits[0]);
  }
  Fixture resumed(config);
  const auto no_warning = [](const std::string& text) { FAIL(text); };
  const Progress progress = restore(resumed.training(), io::Checkpoint::open(directory.path(), no_warning), &resumed.data());
  CHECK(progress.skipped == 1);
  CHECK(resumed.step(progress.step).applied);
  CHECK(resumed.training().scaler().state().scale == 32768);
  CHECK(resumed.training().scaler().state().good_steps == 3);
  CHECK(resumed.bits() == bits[0]);
}

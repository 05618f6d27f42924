#include "engine/train/checkpointer.h"

#include <algorithm>

#include "engine/train/plan.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/train/fixture.h"

namespace oxrse::train {
namespace {

using Catch::Contains;
using testing::Fixture;
using testing::tiny_config;

Config saving_config(bool async) {
  Config config = tiny_config();
  config.checkpoint.async = async;
  config.checkpoint.every = 1;
  config.checkpoint.keep = 0;
  return config;
}

/// A training whose checkpoints go to a directory of its own.
struct Saved {
  explicit Saved(const Config& config)
      : fixture(config),
        checkpointer(fixture.training(), config, {.files = directory.path()}, "", &fixture.data(),
                     [this](const std::string& text) { notes.push_back(text); }) {}

  void step() { fixture.step(progress.step++); }
  [[nodiscard]] bool noted(const std::string& text) const {
    return std::any_of(notes.begin(), notes.end(), [&](const std::string& note) { return note.find(text) != std::string::npos; });
  }

  io::TemporaryDirectory directory;
  std::vector<std::string> notes;
  Fixture fixture;
  Progress progress;
  Checkpointer checkpointer;
};

void fail_on_warning(const std::string& text) { FAIL(text); }

TEST_CASE("what is saved in the background is what would have been saved at once", "[checkpoint]") {
  Saved now(saving_config(false)), later(saving_config(true));
  for (int i = 0; i < 6; ++i) {
    for (Saved* run : {&now, &later}) {
      run->step();
      run->checkpointer.collect();
      run->checkpointer.save(run->progress);  // the next step begins at once
    }
  }
  for (Saved* run : {&now, &later}) run->checkpointer.finish(run->progress);
  for (std::int64_t step = 1; step <= 6; ++step) {
    const auto a = io::Checkpoint::open(now.directory / io::step_name(step), fail_on_warning);
    const auto b = io::Checkpoint::open(later.directory / io::step_name(step), fail_on_warning);
    REQUIRE(a.tensors().size() == b.tensors().size());
    for (std::size_t i = 0; i < a.tensors().size(); ++i) {
      REQUIRE(a.tensors()[i].pieces.size() == 1);
      REQUIRE(b.tensors()[i].pieces.size() == 1);
      CHECK(a.tensors()[i].pieces[0].xxh3 == b.tensors()[i].pieces[0].xxh3);  // not the place in the file: the configs differ
    }
    CHECK(a.state() == b.state());
  }
  CHECK(later.checkpointer.totals().saved == 6);
  CHECK(later.noted("saved step 6"));
}

TEST_CASE("a step is called saved only when it is on the disk", "[checkpoint]") {
  Saved run(saving_config(true));
  run.step();
  run.checkpointer.save(run.progress);
  if (run.noted("saved step 1")) CHECK(io::holds_checkpoint(run.directory.path()));
  run.checkpointer.finish(run.progress);
  CHECK(run.noted("saved step 1"));
  CHECK(io::Checkpoint::open(run.directory.path(), fail_on_warning).step() == 1);
  CHECK(run.checkpointer.totals().saved == 1);  // finish had nothing left to save
}

TEST_CASE("a save while another is being written waits or is skipped, and says so", "[checkpoint]") {
  Config config = saving_config(true);
  config.checkpoint.when_busy = GENERATE("wait", "skip");
  Saved run(config);
  for (int i = 0; i < 30; ++i) {  // faster than a disk can sync
    run.step();
    run.checkpointer.save(run.progress);
  }
  run.checkpointer.finish(run.progress);
  const auto saved = static_cast<std::int64_t>(io::step_directories(run.directory.path()).size());
  const SaveTotals& totals = run.checkpointer.totals();
  CHECK(totals.saved == saved);
  if (config.checkpoint.when_busy == "wait") {
    CHECK(saved == 30);
    CHECK(totals.skipped == 0);
  } else {
    CHECK(run.noted("is not saved: the checkpoint of step") == (totals.skipped > 0));
    CHECK(saved + totals.skipped >= 30);  // finish saves the last step when it was skipped
  }
  CHECK(io::Checkpoint::open(run.directory.path(), fail_on_warning).step() == 30);
}

TEST_CASE("a background write that fails is an error when it is looked at, once", "[checkpoint]") {
  Saved run(saving_config(true));
  run.step();
  std::filesystem::remove(run.directory.path());
  io::put(run.directory.path(), "a file where the directory was");
  run.checkpointer.save(run.progress);  // begins
  CHECK_THROWS_WITH(run.checkpointer.finish(run.progress), Contains(run.directory.path().string()));
  CHECK_FALSE(run.noted("saved step"));
  CHECK(run.checkpointer.totals().saved == 0);
  std::filesystem::remove(run.directory.path());
  run.checkpointer.finish(run.progress);
  CHECK(io::Checkpoint::open(run.directory.path(), fail_on_warning).step() == 1);
}

TEST_CASE("weights alone are saved for evaluation and do not count as the run's state", "[checkpoint]") {
  Saved run(saving_config(GENERATE(true, false)));
  run.step();
  run.checkpointer.save(run.progress, true);
  run.step();
  run.checkpointer.save(run.progress, true);
  run.checkpointer.finish(run.progress);  // makes the complete one
  const auto weights = io::Checkpoint::open(run.directory / io::step_name(1), fail_on_warning);
  CHECK(weights.manifest().weights_only);
  for (const io::StoredTensor& tensor : weights.tensors()) CHECK((tensor.part == "master" || tensor.part == "model"));
  CHECK(run.noted("saved the weights of step 1"));
  const auto complete = io::Checkpoint::open(run.directory.path(), fail_on_warning, io::Need::Everything);
  CHECK(complete.step() == 2);
  Fixture resumed(run.fixture.config());
  CHECK(restore(resumed.training(), complete, &resumed.data()).step == 2);
  CHECK(resumed.bits() == run.fixture.bits());
}

TEST_CASE("moments in bf16 take half the room and are near what they were", "[checkpoint]") {
  Config config = saving_config(GENERATE(true, false));
  config.checkpoint.moments = "bf16";
  Saved run(config);
  for (int i = 0; i < 3; ++i) run.step();
  run.checkpointer.finish(run.progress);
  const auto checkpoint = io::Checkpoint::open(run.directory.path(), fail_on_warning);
  for (const io::StoredTensor& tensor : checkpoint.tensors()) {
    CHECK(tensor.dtype == (tensor.part == "master" || tensor.part == "model" ? DType::F32 : DType::BF16));
  }
  Fixture resumed(config);
  restore(resumed.training(), checkpoint, &resumed.data());
  const auto &states = resumed.training().optimizer().states(), &truth = run.fixture.training().optimizer().states();
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (std::int64_t j = 0; j < states[i].exp_avg.count(); ++j) {
      const float expected = truth[i].exp_avg.data<float>()[j];
      CHECK(states[i].exp_avg.data<float>()[j] == static_cast<float>(bf16(expected)));
    }
  }
}

TEST_CASE("the plan counts the copies that saving in the background takes", "[checkpoint]") {
  Config config = saving_config(true);
  const nn::ModelConfig model = resolve_model(config, 0);
  const Plan with = make_plan(config, model);
  config.checkpoint.async = false;
  const Plan without = make_plan(config, model);
  CHECK(without.snapshot_bytes == 0);
  CHECK(with.saved_bytes == 3 * 4 * with.parameters);
  CHECK(with.snapshot_bytes >= with.saved_bytes);
  CHECK(with.total_bytes() - with.process_bytes == without.total_bytes() - without.process_bytes + with.snapshot_bytes);
}

}  // namespace
}  // namespace oxrse::train

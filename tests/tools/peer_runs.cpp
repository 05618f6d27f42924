// Runs with checkpoint.peer: what was killed goes on from the memory of its node.

#include <filesystem>

#include "io/checkpoint/checkpoint.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/memory_file_system.h"
#include "tests/tools/killed_run.h"

using namespace oxrse;
using namespace oxrse::test;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

std::string options_for(const io::MemoryRoot& root) {
  return fmt::format("--set checkpoint.peer=true --set checkpoint.every=2 --set 'checkpoint.peer_dir=\"{}\"' ", root.path().string());
}

fs::path newest_copy(const io::MemoryRoot& root) {
  const auto steps = io::step_directories(root.only_run());
  REQUIRE(!steps.empty());
  return steps.back().path;
}

/// Goes on for three steps after `step` and compares with a run that never stopped.
CommandResult go_on(const KilledRun& run, int ranks, std::int64_t step, const std::string& options) {
  const std::string steps = fmt::format("--set train.steps={} ", step + 3);
  const CommandResult resumed = run.train(ranks, "run", options + steps), truth = run.train(1, "truth", steps);
  INFO(resumed.out << resumed.err << truth.err);
  CHECK(resumed.exit_code == 0);
  CHECK(truth.exit_code == 0);
  CHECK(run.losses("run") == run.losses("truth"));
  CHECK_THAT(run_command("checkpoint diff " + run.path("run") + " " + run.path("truth")).out, Contains("\n0 of "));
  return resumed;
}

}  // namespace

TEST_CASE("a run that lost a rank goes on from memory at the newest step, without files, with the same bits", "[peer]") {
  const int ranks = GENERATE(1, 2, 3), victim = ranks - 1;
  if (!io::has_memory_file_system() || (ranks > 1 && !can_start_ranks())) return;
  const KilledRun run;
  const io::MemoryRoot root;
  const CommandResult killed = run.train_and_kill(ranks, "run", options_for(root), victim, [&] { run.wait_for_steps("run", 9); });
  CHECK(killed.exit_code != 0);
  const fs::path copy = newest_copy(root);
  const std::int64_t step = io::Checkpoint::open_unverified(copy).step();
  CHECK(step >= 6);  // that of step 8 may have been in the making
  fs::remove_all(run.path("run/checkpoints"));
  const CommandResult resumed = go_on(run, ranks, step, options_for(root));
  CHECK_THAT(resumed.out, Contains(fmt::format("resumed  {} at step {}\n", copy.string(), step)));
  CHECK(root.only_run().empty());  // the run has ended and its last state is in files
  CHECK(io::Checkpoint::open(run.path("run"), [](const std::string& text) { fail("{}", text); }).step() == step + 3);
}

TEST_CASE("a damaged or missing copy: the run says so and goes on from the newest files", "[peer]") {
  if (!io::has_memory_file_system()) return;
  const bool missing = GENERATE(true, false);
  const KilledRun run;
  const io::MemoryRoot root;
  static_cast<void>(run.train_and_kill(1, "run", options_for(root), 0, [&] { run.wait_for_steps("run", 9); }));
  const auto files = io::step_directories(run.path("run/checkpoints"));
  REQUIRE(!files.empty());
  std::string complaint = "holds no whole copy of this run: it goes on from files";
  if (missing) {
    fs::remove_all(root.only_run());
  } else {
    const fs::path shard = newest_copy(root) / "shard_r00000.h5";
    std::string bytes = io::read_file(shard);
    bytes[bytes.size() / 2] ^= 1;
    io::put(shard, bytes);
    for (const auto& older : io::step_directories(root.only_run())) {  // a kill between a save and the removal of the one before
      if (older.path != shard.parent_path()) fs::remove_all(older.path);
    }
    complaint = shard.string() + " is damaged";
  }
  const CommandResult resumed = go_on(run, 1, files.back().step, options_for(root));
  CHECK_THAT(resumed.err, Contains(complaint));
  CHECK_THAT(resumed.out, Contains(fmt::format("resumed  {} at step {}\n", files.back().path.string(), files.back().step)));
}

TEST_CASE("copies of a run whose directory was removed are not taken, those of a run that goes on without them removed", "[peer]") {
  if (!io::has_memory_file_system()) return;
  const KilledRun run;
  const io::MemoryRoot root;
  const bool removed = GENERATE(true, false);
  static_cast<void>(run.train_and_kill(1, "run", options_for(root), 0, [&] { run.wait_for_steps("run", 5); }));
  if (removed) fs::remove_all(run.path("run"));
  const CommandResult next = run.train(1, "run", options_for(root) + (removed ? "" : "--set checkpoint.peer=false --set train.steps=9"));
  INFO(next.out << next.err);
  CHECK(next.exit_code == 0);
  if (removed) {
    CHECK(run.losses("run").size() == 6);  // begun anew
    CHECK_THAT(next.out, !Contains("resumed"));
  } else {
    CHECK(root.only_run().empty());
  }
}

TEST_CASE("a process looks after the memory of a run that nobody continues", "[peer]") {
  if (!io::has_memory_file_system()) return;
  const KilledRun run;
  const io::MemoryRoot root;
  static_cast<void>(
      run.train_and_kill(1, "run", options_for(root) + "--set checkpoint.peer_hours=0.0005", 0, [&] { run.wait_for_steps("run", 5); }));
  wait_until("the end of the memory", [&] { return root.only_run().empty(); });
}

TEST_CASE("copies that cannot be kept are refused before training", "[peer]") {
  const KilledRun run;
  const CommandResult refused = run.train(1, "run", "--set checkpoint.peer=true --set 'checkpoint.peer_dir=\"/proc\"'");
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Contains("/proc is not in memory") && Contains("checkpoint.peer_dir"));
}

// Runs with checkpoint.peer: what was killed goes on from the memory of its node.

#include <algorithm>
#include <deque>
#include <filesystem>
#include <regex>

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

constexpr const char* kPeer = "--set checkpoint.peer=true --set checkpoint.every=2 ";

std::string options_for(const io::MemoryRoot& root) {
  return kPeer + fmt::format("--set 'checkpoint.peer_dir=\"{}\"' ", root.path().string());
}

fs::path newest_copy(const io::MemoryRoot& root) {
  const auto steps = io::step_directories(root.only_run());
  REQUIRE(!steps.empty());
  return steps.back().path;
}

std::int64_t newest_step(const fs::path& checkpoints) { return io::step_directories(checkpoints).back().step; }

/// The step that a run said to go on from; -1: none.
std::int64_t resumed_at(const std::string& out) {
  static const std::regex said("resumed  .* at step ([0-9]+)\n");
  std::smatch found;
  return std::regex_search(out, found, said) ? std::stoll(found[1]) : -1;
}

/// Goes on to three steps after `step` and compares with a run that never stopped.
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
  const int ranks = GENERATE(1, 2, 3), zero = GENERATE(0, 1);
  if (ranks == 1 && zero == 1) return;
  if (!io::has_memory_file_system() || (ranks > 1 && !can_start_ranks())) return;
  const KilledRun run;
  const io::MemoryRoot root;
  const std::string options = options_for(root) + fmt::format("--set parallel.zero={} ", zero);
  const CommandResult killed = run.train_and_kill(ranks, "run", options, ranks - 1, [&] { run.wait_for_steps("run", 9); });
  INFO(killed.err);
  CHECK(killed.exit_code != 0);
  const fs::path copy = newest_copy(root);
  const io::Manifest manifest = io::read_manifest(copy);
  CHECK(manifest.step >= 6);  // that of step 8 may have been in the making
  CHECK(manifest.world == ranks);
  CHECK(io::damage_of(copy).empty());  // one node has all
  CHECK(io::Checkpoint::open_unverified(run.path("run")).manifest().world == ranks);
  fs::remove_all(run.path("run/checkpoints"));
  const CommandResult resumed = go_on(run, ranks, manifest.step, options);
  CHECK_THAT(resumed.out, Contains(fmt::format("resumed  {} at step {}\n", copy.string(), manifest.step)));
  CHECK(root.only_run().empty());  // the run has ended and its last state is in files
  CHECK(io::Checkpoint::open(run.path("run"), [](const std::string& text) { fail("{}", text); }).step() == manifest.step + 3);
}

namespace {

/// Ranks on nodes with memory of their own, some of which are lost.
struct Loss {
  int ranks, zero;
  std::vector<int> lost;
  std::vector<int> then;  // the nodes that ranks are started on again; -1: a new one
};

class LostNodes {
 public:
  explicit LostNodes(const Loss& loss) : loss_(loss), roots_(static_cast<std::size_t>(loss.ranks)) {
    options_ = kPeer + fmt::format("--set 'checkpoint.peer_dir=\".\"' --set parallel.zero={} ", loss.zero);
    std::vector<fs::path> nodes;
    for (const io::MemoryRoot& root : roots_) nodes.push_back(root.path());
    run.put_on_nodes(nodes);
    const CommandResult killed = run.train_and_kill(loss.ranks, "run", options_, loss.lost.front(), [&] { run.wait_for_steps("run", 9); });
    INFO(killed.err);
    CHECK(killed.exit_code != 0);
    for (const io::MemoryRoot& root : roots_) newest_step_ = std::max(newest_step_, newest_step(root.only_run()));
  }
  /// What files there are of the newest copy, by node.
  [[nodiscard]] std::size_t shards_on(int node) const {
    std::size_t shards = 0;
    for (const auto& entry : fs::directory_iterator(newest_copy(roots_[static_cast<std::size_t>(node)]))) {
      shards += entry.path().extension() == ".h5" ? 1 : 0;
    }
    return shards;
  }
  CommandResult go_on_without_them() {
    for (const int node : loss_.lost) fs::remove_all(roots_[static_cast<std::size_t>(node)].only_run());
    std::vector<fs::path> nodes;
    for (const int node : loss_.then) {
      nodes.push_back(node < 0 ? roots_.emplace_back().path() : roots_[static_cast<std::size_t>(node)].path());
    }
    run.put_on_nodes(nodes);
    return go_on(run, static_cast<int>(loss_.then.size()), newest_step_, options_);
  }
  [[nodiscard]] std::int64_t newest_copy_step() const { return newest_step_; }

  KilledRun run;

 private:
  Loss loss_;
  std::deque<io::MemoryRoot> roots_;
  std::string options_;
  std::int64_t newest_step_ = 0;
};

}  // namespace

TEST_CASE("a run that lost a node and its memory goes on from the others', without files, with the same bits", "[peer]") {
  if (!io::has_memory_file_system() || !can_start_ranks()) return;
  const Loss loss = GENERATE(Loss{2, 0, {1}, {0}}, Loss{2, 1, {0}, {-1, 1}}, Loss{3, 1, {1}, {0, 2}}, Loss{3, 0, {0}, {-1, 1, 2}},
                             Loss{3, 1, {2}, {0, 1, -1}});
  LostNodes nodes(loss);
  for (int node = 0; node < loss.ranks; ++node) CHECK(nodes.shards_on(node) == 2);  // its rank's and a partner's
  fs::remove_all(nodes.run.path("run/checkpoints"));
  const CommandResult resumed = nodes.go_on_without_them();
  CHECK(resumed_at(resumed.out) >= nodes.newest_copy_step() - 2);  // not all nodes may have committed the newest one
  CHECK_THAT(resumed.out, !Contains("run/checkpoints"));
}

TEST_CASE("two neighbouring nodes lost: what is missing is named and the run goes on from files", "[peer]") {
  if (!io::has_memory_file_system() || !can_start_ranks()) return;
  LostNodes nodes({3, 1, {1, 2}, {0, -1}});
  const std::int64_t files = newest_step(nodes.run.path("run/checkpoints"));
  const CommandResult resumed = nodes.go_on_without_them();
  CHECK(resumed_at(resumed.out) == files);
  CHECK_THAT(resumed.out, Contains("run/checkpoints"));
  CHECK_THAT(resumed.err, Contains("no node has shard_r00001.h5 of the copy of step"));
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

// Runs with asynchronous checkpoints that are killed at random moments.

#include <cstdlib>
#include <optional>
#include <random>
#include <regex>
#include <thread>

#include "io/checkpoint/checkpoint.h"
#include "tests/catch.h"
#include "tests/io/memory_file_system.h"
#include "tests/tools/killed_run.h"

using namespace oxrse;
using namespace oxrse::test;
using Catch::Matchers::Contains;

namespace {

std::int64_t number_from_environment(const char* name, std::int64_t otherwise) {
  const char* asked = std::getenv(name);
  return asked != nullptr ? std::atoll(asked) : otherwise;
}

/// The last step that a run said to have saved; -1 without one.
std::int64_t last_said_saved(const std::string& out) {
  static const std::regex said("saved step ([0-9]+) in");
  std::int64_t step = -1;
  for (std::sregex_iterator i(out.begin(), out.end(), said), end; i != end; ++i) step = std::stoll((*i)[1]);
  return step;
}

}  // namespace

// The long form: OXRSE_TEST_KILLS=200, for each number of ranks.
TEST_CASE("kills at random moments of runs that save in the background lose nothing that was called saved", "[C1]") {
  const int ranks = GENERATE(1, 2, 3);
  if (ranks > 1 && !can_start_ranks()) return;
  const std::int64_t kills = number_from_environment("OXRSE_TEST_KILLS", ranks == 1 ? 4 : 2);
  const KilledRun run;
  std::optional<io::MemoryRoot> memory;  // of every third run
  if (io::has_memory_file_system()) memory.emplace();
  std::mt19937 random(static_cast<unsigned>(ranks));
  std::int64_t saved = -1, later = 0;
  for (std::int64_t kill = 0; kill < kills; ++kill) {
    CAPTURE(kill);
    const std::string options =
        fmt::format("--set checkpoint.every=1 --set checkpoint.keep=2 --set checkpoint.incremental={}", kill % 2 == 0);
    const std::string copies = memory && kill % 3 == 1
                                   ? fmt::format(" --set checkpoint.peer=true --set 'checkpoint.peer_dir=\"{}\"'", memory->path().string())
                                   : "";
    const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const auto delay = std::chrono::milliseconds(random() % 1500);
    const CommandResult killed = run.train_and_kill(ranks, "run", options + copies, victim, [&] {
      if (kill % 4 == 0) run.wait_for_steps("run", static_cast<std::size_t>(std::max<std::int64_t>(saved, 0) + 2));
      std::this_thread::sleep_for(delay);
    });
    INFO(killed.out << killed.err);
    CHECK(killed.exit_code != 0);
    saved = std::max(saved, last_said_saved(killed.out));
    if (!io::holds_checkpoint(run.path("run"))) {
      REQUIRE(saved == -1);
      continue;
    }
    const io::Checkpoint found =
        io::Checkpoint::open(run.path("run"), [](const std::string& text) { fail("unexpected warning: {}", text); });
    REQUIRE(found.step() >= saved);
    later += found.step() > saved ? 1 : 0;
    saved = found.step();
  }
  CHECK(saved >= 1);
  const std::string steps = fmt::format("--set train.steps={}", saved + 1);
  CHECK(run.train(ranks, "run", steps).exit_code == 0);
  CHECK(run.train(1, "truth", steps).exit_code == 0);
  CHECK(run.losses("run") == run.losses("truth"));
  CHECK_THAT(run_command("checkpoint diff " + run.path("run") + " " + run.path("truth")).out, Contains("\n0 of "));
  if (std::getenv("OXRSE_TEST_KILLS") != nullptr) {
    WARN(ranks << " ranks: " << kills << " kills up to step " << saved << ", after " << later
               << " of them a later one was whole than had been called saved; the same bits as a run that was never killed");
  }
}

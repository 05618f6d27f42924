// What happens to a run when one of its ranks dies, stands still or is told to stop.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <string>

#include "tests/catch.h"
#include "tests/tools/rank_processes.h"
#include "tests/tools/small_run.h"

using namespace oxrse;
using namespace test;
using Catch::Matchers::Contains;

namespace {

constexpr int kRanks = 3;
constexpr const char* kEndless = "--set train.steps=1000000 --set train.eval_every=0 --set optimizer.schedule='\"constant\"' ";

/// A run of three ranks that does not end by itself, and what it came to after `signal` to one of them.
struct Interrupted {
  pid_t process = 0;
  double seconds = 0;  // from the signal to the end of all
  CommandResult result;

  Interrupted(const SmallRun& run, int rank, int signal, const std::function<bool()>& moment, const std::string& options = "") {
    auto ended = std::async(std::launch::async, [&] { return run.train(kRanks, "run", kEndless + options); });
    comes_true([&] { return (process = process_of_rank(rank, run.path("run"))) != 0 && moment(); });
    const auto begin = std::chrono::steady_clock::now();
    if (process != 0) kill(process, signal);
    result = ended.get();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

bool has_stepped(const SmallRun& run) { return run.numbers("run").size() > 3; }

}  // namespace

TEST_CASE("a rank that is killed at any phase ends all within seconds, named with host and operation", "[R3]") {
  if (!has_mpi()) return;
  struct Phase {
    const char* what;
    int victim;
    std::function<bool(const SmallRun&)> reached;
    const char* options;
  };
  const Phase phases[] = {
      {"set-up", 1, [](const SmallRun& run) { return std::filesystem::exists(run.path("cache")); }, ""},
      {"step", 2, has_stepped, ""},
      {"save", 0, [](const SmallRun& run) { return std::filesystem::exists(run.path("run/checkpoints/step_0000000003")); },
       "--set checkpoint.every=1"},
  };
  for (const Phase& phase : phases) {
    const SmallRun run;
    const Interrupted killed(
        run, phase.victim, SIGKILL, [&] { return phase.reached(run); }, phase.options);
    INFO(phase.what << "\n" << killed.result.err);
    CHECK(killed.result.exit_code != 0);
    CHECK(killed.seconds < 10);
    // Named first, or beside one that its MPI library ended because of it and whose end was noticed before.
    CHECK_THAT(killed.result.err, Contains("error: rank ") && Contains(fmt::format("rank {} (host ", phase.victim)) &&
                                      Contains(fmt::format("process {}) died ", killed.process)) && Contains(" operation"));
    for (int r = 0; r < kRanks; ++r) CHECK(process_of_rank(r, run.path("run")) == 0);
  }
}

TEST_CASE("after a kill the same command goes on from the last checkpoint to the same numbers", "[R3]") {
  if (!has_mpi()) return;
  const SmallRun run;
  const auto reached = [&] { return std::filesystem::exists(run.path("run/checkpoints/step_0000000004")); };
  const Interrupted killed(run, 1, SIGKILL, reached);
  CHECK(killed.result.exit_code != 0);
  // As many steps as were made and a few more: the killed run does not know where it is.
  const std::size_t made = run.numbers("run").size();
  const std::string options = fmt::format("{} --set train.steps={}", kEndless, made + 3);
  const CommandResult resumed = run.train(2, "run", options);
  INFO(resumed.out << resumed.err);
  REQUIRE(resumed.exit_code == 0);
  CHECK_THAT(resumed.out, Contains("resumed"));
  REQUIRE(run.train(1, "whole", options).exit_code == 0);
  CHECK(run.numbers("run").size() == made + 3);
  CHECK(run.numbers("run") == run.numbers("whole"));
}

TEST_CASE("a rank that stands still is named after the time allowed", "[comm]") {
  if (!has_mpi()) return;
  const SmallRun run;
  const Interrupted stalled(
      run, 1, SIGSTOP, [&] { return has_stepped(run); }, "--set comm.timeout_s=2");
  INFO(stalled.result.err);
  CHECK(stalled.result.exit_code != 0);
  CHECK(stalled.seconds > 1.5);
  CHECK(stalled.seconds < 15);
  CHECK_THAT(stalled.result.err, Contains("waited 2 s for operation") && Contains("at step ") &&
                                     Contains(fmt::format("process {}) does not answer", stalled.process)));
  CHECK(process_of_rank(1, run.path("run")) == 0);
}

TEST_CASE("a signal to any one rank makes all save the same step and stop", "[R4]") {
  if (!has_mpi()) return;
  for (const int rank : {0, 2}) {
    const SmallRun run;
    const Interrupted stopped(run, rank, rank == 0 ? SIGTERM : SIGUSR1, [&] { return has_stepped(run); });
    INFO(stopped.result.out << stopped.result.err);
    CHECK(stopped.result.exit_code == 0);
    CHECK_THAT(stopped.result.out, Contains("stopped and saved at step"));
    CHECK_THAT(stopped.result.err, !Contains("error"));
  }
}

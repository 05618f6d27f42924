// Runs under a real Slurm of two nodes on this machine.

#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "tests/catch.h"
#include "tests/tools/rank_processes.h"
#include "tests/tools/small_run.h"

using namespace oxrse;
using namespace test;
using Catch::Matchers::Contains;

namespace {

std::string contents(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

bool has_slurm() {
  if (!has_mpi()) return false;
  if (std::system("PATH=$PATH:/usr/sbin; for p in munged slurmctld slurmd srun; do command -v $p >/dev/null || exit 1; done") == 0)
    return true;
  WARN("not tested: Slurm is missing (Debian: munge slurmctld slurmd slurm-client)");
  return false;
}

/// Two nodes of two processors or more, while the test lasts.
class Cluster {
 public:
  Cluster() : running_(script("start") == 0) {}
  ~Cluster() {
    if (running_ && script("stop") != 0) WARN("Slurm did not stop");
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] std::string log() const { return contents((directory_ / "log").string()); }

  /// The output and error of a command of Slurm, and its exit code.
  [[nodiscard]] CommandResult run(const std::string& command) const {
    const std::string out = (directory_ / "out").string(), err = (directory_ / "err").string();
    io::put(directory_ / "command", command);
    const int status =
        std::system(fmt::format("SLURM_CONF='{}/slurm.conf' OMP_NUM_THREADS=1 OXRSE='{}' timeout -k 10 300 sh '{}' >'{}' 2>'{}' </dev/null",
                                path(), OXRSE_BINARY, (directory_ / "command").string(), out, err)
                        .c_str());
    return {WEXITSTATUS(status), contents(out), contents(err)};
  }
  [[nodiscard]] std::string path() const { return (directory_ / "slurm").string(); }

 private:
  int script(const char* action) const {
    return std::system(
        fmt::format("'{}/tools/slurm/local-cluster.sh' {} '{}' >'{}' 2>&1", OXRSE_SOURCE_DIR, action, path(), (directory_ / "log").string())
            .c_str());
  }

  io::TemporaryDirectory directory_;
  bool running_;
};

std::string train_command(const SmallRun& run, const std::string& options) {
  return fmt::format("'{}' --set 'run.dir=\"{}\"' --set train.eval_every=0 --set optimizer.schedule='\"constant\"' {}",
                     run.path("config.json"), run.path("run"), options);
}

}  // namespace

TEST_CASE("runs under srun on two nodes; one without its flag and one with a dead rank are ended", "[slurm]") {
  if (!has_slurm()) return;
  const Cluster cluster;
  INFO(cluster.log());
  REQUIRE(cluster.running());
  const SmallRun run;

  const CommandResult plain = cluster.run("srun -N2 -n2 $OXRSE train " + train_command(run, ""));
  CHECK(plain.exit_code != 0);
  CHECK_THAT(plain.err, Contains("Slurm started 2 tasks") && Contains("srun --mpi=pmi2"));
  CHECK(plain.err.find("Slurm started 2 tasks") == plain.err.rfind("Slurm started 2 tasks"));  // not by every task once more
  CHECK_FALSE(std::filesystem::exists(run.path("run")));

  const CommandResult whole = cluster.run("srun --mpi=pmi2 -N2 -n2 $OXRSE train " + train_command(run, ""));
  INFO(whole.out << whole.err);
  CHECK(whole.exit_code == 0);
  CHECK_THAT(whole.out, Contains("done: 6 steps"));

  // No --kill-on-bad-exit: Slurm itself would let the other rank wait for ever.
  std::thread killer([&] {
    comes_true([&] { return run.numbers("run").size() > 8; });
    const pid_t victim = process_of_rank(1, run.path("run"));
    if (victim != 0) kill(victim, SIGKILL);
  });
  const auto begin = std::chrono::steady_clock::now();
  const CommandResult killed =
      cluster.run("timeout 60 srun --mpi=pmi2 -N2 -n2 $OXRSE train " + train_command(run, "--set train.steps=1000000"));
  killer.join();
  INFO(killed.out << killed.err);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(50));
  CHECK(killed.exit_code != 0);
  CHECK_THAT(killed.err, Contains("error: rank ") && Contains("rank 1 (host ") && Contains("died at step") && Contains(" operation "));
}

TEST_CASE("a job that is told that its time is over saves, requeues itself and goes on; a cancelled one too", "[slurm]") {
  if (!has_slurm()) return;
  const Cluster cluster;
  INFO(cluster.log());
  REQUIRE(cluster.running());
  const SmallRun run;
  const auto submit = [&](const std::string& steps) {
    const CommandResult submitted =
        cluster.run(fmt::format("sbatch --parsable --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --time=10 --output='{}' "
                                "'{}/tools/slurm/requeue.sh' {}",
                                run.path("job.out"), OXRSE_SOURCE_DIR, train_command(run, "--set train.steps=" + steps)));
    INFO(submitted.err);
    REQUIRE(submitted.exit_code == 0);
    return std::to_string(std::stoi(submitted.out));
  };
  const auto steps_beyond = [&](std::size_t steps) { return comes_true([&] { return run.numbers("run").size() > steps; }); };
  const auto is_gone = [&](const std::string& job) {
    return comes_true([&] {
      return cluster.run("squeue -h -j " + job + " -t all -o %T").out.find("RUNNING") == std::string::npos &&
             cluster.run("squeue -h -j " + job + " -o %T").out.empty();
    });
  };

  const std::string job = submit("1000000");
  REQUIRE(steps_beyond(3));
  REQUIRE(cluster.run("scancel --batch --signal=USR1 " + job).exit_code == 0);
  CHECK(comes_true([&] { return contents(run.path("job.out")).find("requeue: the job goes back") != std::string::npos; }));
  CHECK(comes_true([&] { return contents(run.path("job.out")).find("resumed") != std::string::npos; }));
  REQUIRE(steps_beyond(run.numbers("run").size() + 3));
  REQUIRE(cluster.run("scancel " + job).exit_code == 0);
  REQUIRE(is_gone(job));

  const std::size_t steps = run.numbers("run").size() + 5;
  const std::string last = submit(std::to_string(steps));
  CHECK(comes_true([&] { return contents(run.path("job.out")).find("done: ") != std::string::npos; }));
  REQUIRE(is_gone(last));
  INFO(contents(run.path("job.out")));
  const CommandResult whole = run.train(1, "whole",
                                        fmt::format("--set train.eval_every=0 --set optimizer.schedule='\"constant\"' "
                                                    "--set train.steps={}",
                                                    steps));
  REQUIRE(whole.exit_code == 0);
  REQUIRE(run.numbers("run").size() == steps);
  CHECK(run.numbers("run") == run.numbers("whole"));
}

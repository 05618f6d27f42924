#include "tests/tools/killed_run.h"

#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "comm/transport/mpi.h"
#include "engine/core/json.h"
#include "tests/catch.h"

namespace oxrse::test {

bool can_start_ranks() {
  if (comm::mpi_status().starts_with("built in") && std::system("command -v mpirun >/dev/null") == 0) return true;
  WARN("not tested: MPI is missing (Debian: mpich libmpich-dev)");
  return false;
}

void wait_until(const std::string& what, const std::function<bool()>& f) {
  for (int i = 0; i < 6000; ++i) {
    if (f()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fail("{} did not happen", what);
}

KilledRun::KilledRun() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "In line " + std::to_string(i * 7919 % 1000) + " nothing happens twice.\n";
  io::put(directory_ / "text.txt", text);
  const Json config = {{"model", {{"layers", 2}, {"width", 24}, {"heads", 3}, {"context", 16}, {"vocab", 0}}},
                       {"data", {{"train", path("text.txt")}, {"tokenizer", "bytes"}, {"cache", path("cache")}}},
                       {"train", {{"steps", 6}, {"global_batch", 12}, {"micro_batch", 1}, {"context", 16}, {"eval_every", 0}}},
                       {"optimizer", {{"warmup_steps", 2}, {"schedule", "constant"}}},
                       {"comm", {{"timeout_s", 60}}},
                       {"log", {{"every", 1}, {"tensorboard", false}}}};
  io::put(directory_ / "config.json", config.dump());
  io::put(directory_ / "start.sh", fmt::format("rank=${{PMI_RANK:-0}}; echo $$ >'{}'$rank; if [ -e '{}'$rank ]; then cd '{}'$rank; fi\n"
                                               "exec \"$@\"\n",
                                               path("pid."), path("node."), path("node.")));
}

std::string KilledRun::command(const std::string& run, const std::string& options) const {
  return fmt::format("train {} --set 'run.dir=\"{}\"' {}", path("config.json"), path(run), options);
}

std::string KilledRun::launcher(int ranks) const {
  const bool on_nodes = std::filesystem::exists(node_of(0));
  return fmt::format("OMP_NUM_THREADS=1 {} {} sh {} ", on_nodes ? "MPIR_CVAR_NOLOCAL=1" : "",
                     ranks > 1 ? fmt::format("mpirun -n {}", ranks) : "", path("start.sh"));
}

void KilledRun::put_on_nodes(const std::vector<std::filesystem::path>& nodes) const {
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const std::filesystem::path link = node_of(static_cast<int>(rank));
    std::filesystem::remove(link);
    std::filesystem::create_directory_symlink(nodes[rank], link);
  }
}

CommandResult KilledRun::train(int ranks, const std::string& run, const std::string& options) const {
  return run_command(command(run, options), launcher(ranks));
}

CommandResult KilledRun::train_and_kill(int ranks, const std::string& run, const std::string& options, int victim,
                                        const std::function<void()>& wait) const {
  const std::string pid_file = path("pid." + std::to_string(victim));
  std::filesystem::remove(pid_file);
  CommandResult result;
  std::jthread launch([&] { result = run_command(command(run, options + " --set train.steps=1000000000"), launcher(ranks)); });
  pid_t pid = 0;
  wait_until("the start of rank " + std::to_string(victim), [&] { return static_cast<bool>(std::ifstream(pid_file) >> pid); });
  try {
    wait();
  } catch (const Error&) {
    ::kill(pid, SIGKILL);
    throw;
  }
  ::kill(pid, SIGKILL);
  launch.join();
  return result;
}

void KilledRun::wait_for_steps(const std::string& run, std::size_t steps) const {
  wait_until(fmt::format("step {} of {}", steps, run), [&] {
    std::ifstream file(directory_ / run / "metrics.jsonl");
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n')) >= steps;
  });
}

std::vector<double> KilledRun::losses(const std::string& run) const {
  std::ifstream file(directory_ / run / "metrics.jsonl");
  std::vector<double> losses;
  for (std::string line; std::getline(file, line);) {
    const Json record = Json::parse(line);
    CHECK(record.at("step") == losses.size() + 1);
    losses.push_back(record.at("loss"));
  }
  return losses;
}

}  // namespace oxrse::test

#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/io/temporary.h"
#include "tests/tools/command.h"

namespace oxrse::test {

/// Whether runs on several ranks can be tested here; says so when they cannot.
bool can_start_ranks();

/// Small runs of `oxrse train` that are killed. The learning rate is constant, so that a run of more steps begins like one of fewer.
class KilledRun {
 public:
  KilledRun();

  /// From now on rank r runs in directory `nodes[r]`, and takes the other ranks for being on other machines.
  void put_on_nodes(const std::vector<std::filesystem::path>& nodes) const;

  [[nodiscard]] std::string path(const std::string& name) const { return (directory_ / name).string(); }
  [[nodiscard]] CommandResult train(int ranks, const std::string& run, const std::string& options) const;
  /// Starts a run without end, calls `wait`, kills rank `victim`, and returns when all ranks have ended.
  [[nodiscard]] CommandResult train_and_kill(int ranks, const std::string& run, const std::string& options, int victim,
                                             const std::function<void()>& wait) const;
  /// Returns when the run has recorded `steps` steps; an Error after a minute.
  void wait_for_steps(const std::string& run, std::size_t steps) const;
  /// The losses of steps 1, 2, ...
  [[nodiscard]] std::vector<double> losses(const std::string& run) const;

 private:
  [[nodiscard]] std::string command(const std::string& run, const std::string& options) const;
  [[nodiscard]] std::string launcher(int ranks) const;
  [[nodiscard]] std::string node_of(int rank) const { return path("node.") + std::to_string(rank); }

  io::TemporaryDirectory directory_;
};

/// Calls `f` again and again until it is true; an Error after a minute that says `what` did not happen.
void wait_until(const std::string& what, const std::function<bool()>& f);

}  // namespace oxrse::test

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "comm/transport/mpi.h"
#include "engine/train/config.h"

namespace oxrse::train {

/// Threads for a rank: OMP_NUM_THREADS when set, otherwise what srun --cpus-per-task gives, otherwise its share of the processors that
/// ranks of this machine use together.
int threads_of_rank(const comm::MpiSession& session);

/// The algorithms that the config leaves for sums over ranks.
comm::Choice choice_of(const CommConfig& config);

/// The data-parallel ranks of a run or an evaluation: one without a launcher, otherwise those of MPI. Only the first prints on stdout. Make
/// it after StopRequests, because MPI and communicators start threads.
class Ranks {
 public:
  Ranks();

  /// Does `work` on all ranks, as comm::run_on_all.
  void run(const std::function<void()>& work);

  /// Connects the ranks as the config says. An Error when they were started with configs, builds or settings in the environment that
  /// differ, or when the config's batch cannot be shared by them.
  void connect(const Config& config);
  /// Connects the ranks for work without a config; `job` says what it is, and must be the same everywhere.
  void connect(const Json& job);
  /// Absent with one rank.
  [[nodiscard]] comm::Communicator* communicator() { return communicator_ ? &*communicator_ : nullptr; }

  [[nodiscard]] bool first() const { return session_.rank() == 0; }
  /// The first rank of its machine.
  [[nodiscard]] int first_of_node() const { return session_.first_of_machine(); }
  [[nodiscard]] int size() const { return session_.size(); }
  [[nodiscard]] int threads() const { return threads_of_rank(session_); }

  /// Calls `work` on the first rank and then on the others, which find what it wrote.
  void first_alone(const std::function<void()>& work);
  /// What the first rank says.
  std::string from_first(const std::string& text);
  /// Whether any rank says yes.
  bool any(bool here);

 private:
  void agree(const Json& mine, const comm::Settings& settings);

  comm::MpiSession session_;
  std::optional<comm::Communicator> communicator_;
};

}  // namespace oxrse::train

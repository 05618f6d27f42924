#pragma once

#include <memory>
#include <optional>

#include "comm/failure/guard.h"
#include "comm/transport/transport.h"

namespace oxrse::comm {

/// MPI from its start to its end. Without MPI in the build, or without a launcher, there is one rank and MPI is not started at all.
class MpiSession {
 public:
  /// Starts MPI where a launcher has set this process up for it. An Error says so when a launcher started several tasks that do not know of
  /// each other, and how to start them; a ReportedError on all tasks but one.
  MpiSession();
  /// Ends MPI. While an exception is on its way it does not, because other ranks may never get there: the process is about to exit with an
  /// error, and launchers end the others.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Ranks on this machine, and which of them this one is.
  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] int local_size() const { return local_size_; }
  /// The first rank of this machine.
  [[nodiscard]] int first_of_machine() const { return first_of_machine_; }
  /// Ranks that stand side by side on every machine, when that is the same number everywhere and they are numbered machine by machine;
  /// else 1.
  [[nodiscard]] int ranks_per_node() const { return ranks_per_node_; }

  /// The most ranks of this machine that may run on one of this rank's processors.
  [[nodiscard]] int ranks_sharing_processors() const { return ranks_sharing_processors_; }

  /// What the guard of this rank tells the others when the rank dies; absent with one rank.
  [[nodiscard]] Activity* activity() { return guard_ ? &guard_->activity() : nullptr; }

  /// The ranks of MPI_COMM_WORLD; only with size() > 1.
  std::unique_ptr<Transport> transport();

  /// Seconds that a call of MPI's own all-reduce of `count` f32 takes. For comparison in benchmarks.
  static double time_all_reduce(const float* input, float* output, std::int64_t count);

 private:
  void require_connected();
  void find_machines();
  void join_guards();

  std::optional<Guard> guard_;  // first: it is told of the end when all else has ended
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1, first_of_machine_ = 0, ranks_per_node_ = 1, ranks_sharing_processors_ = 1;
};

/// The number that a launcher gave to this process, known before MPI says it and where it does not; 0 without a launcher.
long task_number();

/// "built in: MPICH 4.0.2" or "left out: why".
std::string mpi_status();

}  // namespace oxrse::comm

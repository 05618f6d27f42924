#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/transport/mpi.h"
#include "engine/core/json.h"

namespace oxrse::bench {

/// One collective of one size by one algorithm.
struct CollectiveRow {
  std::string collective, algorithm;  // "mpi": the MPI library's own
  std::int64_t bytes = 0, count = 0;
  DType type = DType::F32;
  double seconds = 0;      // median
  double predicted = 0;    // seconds, by the cost model; 0: not known
  bool chosen = false;     // what training would take
  std::int64_t wrong = 0;  // elements of all ranks that are not what they must be
  int ranks = 1;

  /// Bytes a second as the caller sees it, and as the links see it: times 2(n-1)/n for all-reduce, (n-1)/n for reduce-scatter, all-gather
  /// and all-to-all, 1 for broadcast; the definitions of nccl-tests.
  [[nodiscard]] double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds; }
  [[nodiscard]] double bus_bandwidth() const;
};

struct CollectiveOptions {
  comm::Collective collective = comm::Collective::AllReduce;
  DType type = DType::F32;
  std::int64_t least_bytes = 4, most_bytes = 256 << 20;
  std::int64_t factor = 4;   // from one size to the next
  double seconds = 0.5;      // the most to spend on a size and algorithm
  bool compare_mpi = false;  // the ranks are MPI's
};

/// Measures every algorithm at every size, turn by turn so that what disturbs the machine disturbs all alike. Called on all ranks; `show`
/// gets the rows of a size on the first.
void run_collectives(comm::Communicator& ranks, const CollectiveOptions& options, const std::function<void(const CollectiveRow&)>& show);

std::string collective_heading();
std::string collective_line(const CollectiveRow& row);
Json to_json(const CollectiveRow& row);

}  // namespace oxrse::bench

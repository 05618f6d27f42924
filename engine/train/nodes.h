#pragma once

#include <optional>
#include <vector>

#include "comm/communicator.h"

namespace oxrse::train {

/// Which ranks share a machine and its memory.
class Nodes {
 public:
  /// Together: `first_of_node` is the first rank of this rank's machine. `ranks` may be absent: one rank.
  Nodes(comm::Communicator* ranks, int first_of_node);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(node_of_.size()); }
  /// The first rank of each node: nodes are called by it.
  [[nodiscard]] const std::vector<int>& all() const { return nodes_; }
  [[nodiscard]] int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int mine() const { return node_of(rank_); }
  /// Whether this rank is the first of its node.
  [[nodiscard]] bool leads() const { return mine() == rank_; }

  /// The rank of the next node that keeps a copy of what `rank` has; nothing when there is one node only. Ranks of equal nodes have one
  /// each.
  [[nodiscard]] std::optional<int> partner_of(int rank) const;
  /// Whether what `rank` has is kept on this node: it is here or its partner is.
  [[nodiscard]] bool keeps(int rank) const;

 private:
  [[nodiscard]] std::vector<int> ranks_on(int node) const;

  int rank_ = 0;
  std::vector<int> node_of_;  // by rank
  std::vector<int> nodes_;
};

}  // namespace oxrse::train

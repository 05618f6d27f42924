#include "engine/train/nodes.h"

#include <algorithm>

namespace oxrse::train {

Nodes::Nodes(comm::Communicator* ranks, int first_of_node) : rank_(ranks == nullptr ? 0 : ranks->rank()) {
  std::vector<double> nodes(ranks == nullptr ? 1 : static_cast<std::size_t>(ranks->size()));
  nodes[static_cast<std::size_t>(rank_)] = first_of_node;
  if (ranks != nullptr) ranks->all_reduce(nodes, "nodes");
  node_of_.assign(nodes.begin(), nodes.end());
  nodes_ = node_of_;
  std::sort(nodes_.begin(), nodes_.end());
  nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
}

std::optional<int> Nodes::partner_of(int rank) const {
  if (nodes_.size() == 1) return std::nullopt;
  const auto here = std::find(nodes_.begin(), nodes_.end(), node_of(rank));
  const int next = here + 1 == nodes_.end() ? nodes_.front() : here[1];
  const std::vector<int> beside = ranks_on(*here), others = ranks_on(next);
  const auto place = static_cast<std::size_t>(std::find(beside.begin(), beside.end(), rank) - beside.begin());
  return others[place % others.size()];
}

bool Nodes::keeps(int rank) const {
  const std::optional<int> partner = partner_of(rank);
  return node_of(rank) == mine() || (partner && node_of(*partner) == mine());
}

std::vector<int> Nodes::ranks_on(int node) const {
  std::vector<int> found;
  for (int r = 0; r < ranks(); ++r) {
    if (node_of(r) == node) found.push_back(r);
  }
  return found;
}

}  // namespace oxrse::train

#include "comm/reduction_tree.h"

#include <algorithm>
#include <bit>
#include <span>

#include "engine/core/error.h"

namespace oxrse::comm {

std::int64_t left_of_pairwise(std::int64_t n) { return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)) / 2); }

bool ReductionTree::Node::has(int r) const { return std::binary_search(ranks.begin(), ranks.end(), r); }

int ReductionTree::add_leaf(int rank, int part) {
  nodes_.push_back({.rank = rank, .part = part, .ranks = {rank}});
  return root();
}

int ReductionTree::add_sum(int left, int right) {
  Node node{.left = left, .right = right, .ranks = {}};
  const Node &l = nodes_[static_cast<std::size_t>(left)], &r = nodes_[static_cast<std::size_t>(right)];
  node.height = std::max(l.height, r.height) + 1;
  std::set_union(l.ranks.begin(), l.ranks.end(), r.ranks.begin(), r.ranks.end(), std::back_inserter(node.ranks));
  nodes_.push_back(std::move(node));
  return root();
}

int ReductionTree::add_pairwise(int begin, int end) {
  if (end - begin == 1) return add_leaf(begin, 0);
  const int middle = begin + static_cast<int>(left_of_pairwise(end - begin));
  const int left = add_pairwise(begin, middle);
  return add_sum(left, add_pairwise(middle, end));
}

ReductionTree ReductionTree::pairwise(int ranks) {
  ReductionTree tree;
  tree.add_pairwise(0, ranks);
  return tree;
}

ReductionTree ReductionTree::by_node(int ranks, int per_node) {
  require(per_node > 0 && ranks % per_node == 0, "{} ranks are not a multiple of {} ranks a node", ranks, per_node);
  ReductionTree tree;
  const auto add = [&](const auto& self, int first, int last) -> int {  // nodes [first, last) of the machine
    if (last - first == 1) return tree.add_pairwise(first * per_node, last * per_node);
    const int middle = first + static_cast<int>(left_of_pairwise(last - first));
    const int left = self(self, first, middle);
    return tree.add_sum(left, self(self, middle, last));
  };
  add(add, 0, ranks / per_node);
  return tree;
}

ReductionTree ReductionTree::of_blocks(const std::vector<Block>& blocks) {
  ReductionTree tree;
  const auto add = [&](const auto& self, std::span<const Block> some, std::int64_t begin, std::int64_t end) -> int {
    require(!some.empty(), "no block holds the micro-batches [{}, {})", begin, end);
    if (some.front().begin == begin && some.front().end == end) return tree.add_leaf(some.front().rank, some.front().part);
    const std::int64_t middle = begin + left_of_pairwise(end - begin);
    const auto split = std::find_if(some.begin(), some.end(), [&](const Block& b) { return b.begin >= middle; });
    const auto before = static_cast<std::size_t>(split - some.begin());
    require(before > 0 && some[before - 1].end == middle, "a block of micro-batches crosses {}, where the pairwise sum of [{}, {}) is cut",
            middle, begin, end);
    const int left = self(self, some.first(before), begin, middle);
    return tree.add_sum(left, self(self, some.subspan(before), middle, end));
  };
  require(!blocks.empty() && blocks.front().begin == 0, "the blocks of micro-batches do not begin at 0");
  add(add, blocks, 0, blocks.back().end);
  return tree;
}

int ReductionTree::parts() const {
  int most = 0;
  for (const Node& node : nodes_) most = std::max(most, node.is_leaf() ? node.part + 1 : 0);
  return most;
}

std::vector<int> ReductionTree::holders(int owner) const {
  std::vector<int> holder(nodes_.size(), -1);
  holder[static_cast<std::size_t>(root())] = owner;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    if (node.is_leaf()) continue;
    for (const int child : {node.left, node.right}) {
      const Node& below = nodes_[static_cast<std::size_t>(child)];
      const auto place = std::lower_bound(node.ranks.begin(), node.ranks.end(), holder[i]) - node.ranks.begin();
      const int turn = below.ranks[static_cast<std::size_t>(place) % below.ranks.size()];
      holder[static_cast<std::size_t>(child)] = below.has(holder[i]) ? holder[i] : turn;
    }
  }
  return holder;
}

}  // namespace oxrse::comm

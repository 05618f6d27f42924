#include <algorithm>
#include <numeric>
#include <span>

#include "comm/algorithms/algorithms.h"

namespace oxrse::comm {
namespace {

/// Which rank holds which sum for which owner, and where the owners' shares are. `ranks` is the tree that says what travels together.
class Spread {
 public:
  Spread(const Request& request, const ReductionTree& tree, const ReductionTree& ranks) : tree_(tree) {
    const int n = request.ranks();
    for (int s = 0; s < n; ++s) holders_.push_back(tree.holders(s));
    order_.resize(static_cast<std::size_t>(n));
    std::iota(order_.begin(), order_.end(), 0);
    // Nobody cares which part of an all-reduce a rank sums up, so shares that travel together are put side by side.
    if (request.collective == Collective::AllReduce) sort_by_first_steps(ranks);
    extents_.resize(static_cast<std::size_t>(n));
    for (int position = 0; position < n; ++position) {
      extents_[static_cast<std::size_t>(order_[static_cast<std::size_t>(position)])] = share_of(request, position);
    }
  }

  /// Owners in the order of their shares.
  [[nodiscard]] std::span<const int> order() const { return order_; }
  [[nodiscard]] Extent extent(int owner) const { return extents_[static_cast<std::size_t>(owner)]; }
  [[nodiscard]] int holder(int owner, int node) const { return holders_[static_cast<std::size_t>(owner)][static_cast<std::size_t>(node)]; }
  [[nodiscard]] const ReductionTree& tree() const { return tree_; }

 private:
  void sort_by_first_steps(const ReductionTree& ranks) {
    std::vector<std::vector<int>> keys;  // by owner: the holders in the nodes above rank 0, lowest first
    for (const int owner : order_) {
      const std::vector<int> holders = ranks.holders(owner);
      auto& key = keys.emplace_back();
      for (std::size_t v = 0; v < holders.size(); ++v) {
        const auto& node = ranks.nodes()[v];
        if (!node.is_leaf() && node.has(0)) key.push_back(holders[v]);
      }
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)]; });
  }

  const ReductionTree& tree_;
  std::vector<std::vector<int>> holders_;  // (owner, node)
  std::vector<int> order_;
  std::vector<Extent> extents_;  // by owner
};

/// The reduce-scatter of one rank: up the tree, where the sum of every node is on the rank that `Spread` says.
class Up {
 public:
  Up(ProgramBuilder& builder, const Request& request, const Spread& spread, int rank)
      : builder_(builder), request_(request), spread_(spread), rank_(rank) {
    const bool has_whole_output = request.collective == Collective::AllReduce;
    work_ = request.wide || !(has_whole_output || request.in_place) ? Buffer::Scratch : Buffer::Output;
    places_.resize(spread.tree().nodes().size());
    for (std::size_t v = 0; v < places_.size(); ++v) {
      const auto& node = spread.tree().nodes()[v];
      places_[v] = node.is_leaf() ? Place{Buffer::Input, node.part} : place_of_sum(node);
    }
    places_.back() = {Buffer::Output, 0};
    const bool uses_scratch = std::any_of(places_.begin(), places_.end(), [](const Place& p) { return p.buffer == Buffer::Scratch; });
    offset_ = builder.scratch(uses_scratch ? request.count : 0);
  }

  void run() {
    const auto& nodes = spread_.tree().nodes();
    for (int height = 1; height <= nodes.back().height; ++height) {
      for (int v = 0; v <= spread_.tree().root(); ++v) {
        const auto& node = nodes[static_cast<std::size_t>(v)];
        if (node.height != height || !node.has(rank_)) continue;
        builder_.cut();
        for (const int owner : spread_.order()) add(owner, v, node);
      }
      builder_.next_step();
    }
  }

 private:
  struct Place {
    Buffer buffer = Buffer::Input;
    int part = 0;
  };

  [[nodiscard]] bool writable(const Place& p) const {
    return p.buffer == work_ || (p.buffer == Buffer::Input && request_.in_place && !request_.wide);
  }
  /// A sum overwrites one of its addends where that is allowed.
  [[nodiscard]] Place place_of_sum(const ReductionTree::Node& node) const {
    for (const int child : {node.left, node.right}) {
      const Place place = places_[static_cast<std::size_t>(child)];
      if (spread_.tree().nodes()[static_cast<std::size_t>(child)].has(rank_) && writable(place)) return place;
    }
    return {work_, 0};
  }
  [[nodiscard]] Range at(int v, Extent e) const {
    const Place& p = places_[static_cast<std::size_t>(v)];
    return {p.buffer, p.part, e.offset + (p.buffer == Buffer::Scratch ? offset_ : 0), e.count};
  }

  void add(int owner, int v, const ReductionTree::Node& node) {
    const Extent e = spread_.extent(owner);
    const int sum = spread_.holder(owner, v), left = spread_.holder(owner, node.left), right = spread_.holder(owner, node.right);
    const int here = left == sum ? node.left : node.right, there = left == sum ? node.right : node.left;
    const int peer = left == sum ? right : left;
    const bool wide = request_.wide && !spread_.tree().nodes()[static_cast<std::size_t>(there)].is_leaf();
    if (sum == rank_ && peer == rank_) {
      builder_.reduce(at(v, e), at(here, e), at(there, e));
    } else if (sum == rank_) {
      builder_.receive_reduce(peer, at(v, e), at(here, e), wide);
    } else if (peer == rank_) {
      builder_.send(sum, at(there, e), wide);
    }
  }

  ProgramBuilder& builder_;
  const Request& request_;
  const Spread& spread_;
  int rank_;
  Buffer work_ = Buffer::Output;
  std::vector<Place> places_;  // by node
  std::int64_t offset_ = 0;
};

/// The all-gather of one rank: down the tree, the holder of a node's share gives it to the half that has it not.
void down(ProgramBuilder& builder, const Spread& spread, int rank) {
  const auto& nodes = spread.tree().nodes();
  for (int height = nodes.back().height; height > 0; --height) {
    for (int v = 0; v <= spread.tree().root(); ++v) {
      const auto& node = nodes[static_cast<std::size_t>(v)];
      if (node.height != height || !node.has(rank)) continue;
      builder.cut();
      for (const int owner : spread.order()) {
        const int from = spread.holder(owner, v), left = spread.holder(owner, node.left);
        const int to = left == from ? spread.holder(owner, node.right) : left;
        if (from == rank) builder.send(to, output(spread.extent(owner)));
        if (to == rank) builder.receive(from, output(spread.extent(owner)));
      }
    }
    builder.next_step();
  }
}

Program over(const ReductionTree& sums, const ReductionTree& ranks, const Request& request, int rank) {
  ProgramBuilder builder;
  const Extent own = share_of(request, rank);
  if (sums.nodes().size() == 1 && request.collective != Collective::AllGather) {
    copy_input(builder, request, own);
    return builder.finish();
  }
  if (request.collective != Collective::AllGather) {
    const Spread spread(request, sums, ranks);
    Up(builder, request, spread, rank).run();
  } else {
    copy_input(builder, request, own);
    builder.next_step();
  }
  if (request.collective != Collective::ReduceScatter) down(builder, Spread(request, ranks, ranks), rank);
  return builder.finish();
}

}  // namespace

Program halving(const Request& request, int rank) { return over(request.tree, ReductionTree::pairwise(request.ranks()), request, rank); }

Program hierarchical(const Request& request, int rank) {
  const ReductionTree tree = ReductionTree::by_node(request.ranks(), request.ranks_per_node);
  return over(tree, tree, request, rank);
}

}  // namespace oxrse::comm

#include <algorithm>

#include "comm/algorithms/algorithms.h"

namespace oxrse::comm {
namespace {

int place_in(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

/// The sums of the tree's nodes that a rank is part of, in two buffers by turns: while one is sent, the other is written.
class Sums {
 public:
  Sums(ProgramBuilder& builder, const Request& request, int levels)
      : request_(request), whole_{0, request.count}, levels_(levels), offset_(builder.scratch(slots() * request.count)) {}

  /// Where the sum of the level-th node is; level 0 is the input.
  [[nodiscard]] Range at(int level) const {
    if (level == 0) return input(whole_);
    if (level == levels_ && final_is_output()) return output(whole_);
    if (request_.wide) return scratch(offset_ + level % 2 * request_.count, request_.count);
    return (levels_ - level) % 2 == (final_is_output() ? 0 : 1) ? output(whole_) : scratch(offset_, request_.count);
  }
  [[nodiscard]] bool wide(int level) const { return request_.wide && level > 0; }
  /// The last sum may be written to the output unless it is what is being sent.
  [[nodiscard]] bool final_is_output() const {
    if (request_.wide) return levels_ > 1 || !request_.in_place;
    return !request_.in_place || levels_ % 2 == 0;
  }

 private:
  [[nodiscard]] std::int64_t slots() const {
    if (request_.wide) return 2;
    return levels_ > 1 || request_.in_place ? 1 : 0;
  }

  const Request& request_;
  Extent whole_;
  int levels_;
  std::int64_t offset_;
};

void all_reduce(ProgramBuilder& builder, const Request& request, int rank) {
  std::vector<const ReductionTree::Node*> path;
  const auto& nodes = request.tree.nodes();
  for (const auto& node : nodes) {
    if (!node.is_leaf() && node.has(rank)) path.push_back(&node);
  }
  const int levels = static_cast<int>(path.size());
  const Extent whole{0, request.count};
  if (levels == 0) return copy_input(builder, request, whole);
  const Sums sums(builder, request, levels);
  for (int level = 0; level < levels; ++level) {
    const auto& left = nodes[static_cast<std::size_t>(path[static_cast<std::size_t>(level)]->left)].ranks;
    const auto& right = nodes[static_cast<std::size_t>(path[static_cast<std::size_t>(level)]->right)].ranks;
    const bool is_left = std::binary_search(left.begin(), left.end(), rank);
    const auto &own = is_left ? left : right, &other = is_left ? right : left;
    const int place = place_in(own, rank), own_size = static_cast<int>(own.size()), other_size = static_cast<int>(other.size());
    // A rank hears from its counterpart; of two groups that differ in size, the smaller one's ranks speak to several.
    for (int p = place; p < other_size; p += own_size) builder.send(other[static_cast<std::size_t>(p)], sums.at(level), sums.wide(level));
    builder.receive_reduce(other[static_cast<std::size_t>(place % other_size)], sums.at(level + 1), sums.at(level),
                           request.wide && other_size > 1);
    builder.next_step();
  }
  if (!sums.final_is_output()) builder.copy(output(whole), sums.at(levels));
}

/// In step k the first 2^k ranks, counted from the root, send to the next 2^k.
void broadcast(ProgramBuilder& builder, const Request& request, int rank) {
  const int n = request.ranks(), d = (rank - request.root + n) % n;
  const Extent whole{0, request.count};
  for (int reached = 1; reached < n; reached *= 2) {
    if (d < reached && d + reached < n) builder.send((rank + reached) % n, d == 0 ? input(whole) : output(whole));
    if (d >= reached && d < 2 * reached) builder.receive((rank - reached + n) % n, output(whole));
    builder.next_step();
  }
  if (d == 0) copy_input(builder, request, whole);
}

}  // namespace

Program doubling(const Request& request, int rank) {
  ProgramBuilder builder;
  if (request.collective == Collective::Broadcast) {
    broadcast(builder, request, rank);
  } else {
    all_reduce(builder, request, rank);
  }
  return builder.finish();
}

}  // namespace oxrse::comm

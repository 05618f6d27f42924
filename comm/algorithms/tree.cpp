#include <algorithm>
#include <bit>
#include <map>

#include "comm/algorithms/algorithms.h"

namespace oxrse::comm {
namespace {

/// A binary tree over n ranks: rank 0 is the root and has one child; below it, in order, ranks with k zeros at the end of their number are
/// k levels above the leaves. So the leaves are the odd ranks.
class BinaryTree {
 public:
  enum class Numbering : std::uint8_t { Plain, Mirrored, Shifted };
  BinaryTree(int ranks, Numbering numbering) : ranks_(ranks), numbering_(numbering), up_(static_cast<std::size_t>(ranks)) {
    depth_.assign(static_cast<std::size_t>(ranks), 0);
    connect(0, 1, ranks);
    send_time_.assign(static_cast<std::size_t>(ranks), 0);
    top_ = times(0);
  }

  /// The second tree for `ranks`: its inner nodes are the first one's leaves, all but one when the number is odd.
  static BinaryTree second(int ranks) { return {ranks, ranks % 2 == 0 ? Numbering::Mirrored : Numbering::Shifted}; }

  /// -1 for the root.
  [[nodiscard]] int parent(int rank) const {
    const int place = to_place(rank);
    return place == 0 ? -1 : to_rank(up_[static_cast<std::size_t>(place)]);
  }
  [[nodiscard]] std::vector<int> children(int rank) const {
    std::vector<int> result;
    for (int place = 1; place < ranks_; ++place) {
      if (up_[static_cast<std::size_t>(place)] == to_place(rank)) result.push_back(to_rank(place));
    }
    return result;
  }
  [[nodiscard]] int depth(int rank) const { return depth_[static_cast<std::size_t>(to_place(rank))]; }
  /// The step in which a rank sends the sum of the first chunk up; children of one rank take different steps.
  [[nodiscard]] int send_time(int rank) const { return send_time_[static_cast<std::size_t>(to_place(rank))]; }
  /// The step in which the root has the sum of the first chunk.
  [[nodiscard]] int top() const { return top_; }

 private:
  /// Puts places [begin, end) below `parent`.
  void connect(int parent, int begin, int end) {
    if (begin >= end) return;
    int middle = begin;  // the one with the most zeros at its end
    for (int p = begin; p < end; ++p) {
      if (std::countr_zero(static_cast<unsigned>(p)) > std::countr_zero(static_cast<unsigned>(middle))) middle = p;
    }
    up_[static_cast<std::size_t>(middle)] = parent;
    depth_[static_cast<std::size_t>(middle)] = depth_[static_cast<std::size_t>(parent)] + 1;
    connect(middle, begin, middle);
    connect(middle, middle + 1, end);
  }

  /// When `place` has the sum of its subtree.
  int times(int place) {
    std::vector<int> below;
    for (int p = 1; p < ranks_; ++p) {
      if (up_[static_cast<std::size_t>(p)] == place) below.push_back(p);
    }
    std::vector<std::pair<int, int>> ready;
    for (const int p : below) ready.emplace_back(times(p), p);
    std::sort(ready.begin(), ready.end());
    int next = 0;
    for (const auto& [time, p] : ready) {
      send_time_[static_cast<std::size_t>(p)] = std::max(time, next);
      next = send_time_[static_cast<std::size_t>(p)] + 1;
    }
    return next;
  }

  [[nodiscard]] int to_rank(int place) const {
    if (numbering_ == Numbering::Mirrored) return ranks_ - 1 - place;
    return numbering_ == Numbering::Shifted ? (place + 1) % ranks_ : place;
  }
  [[nodiscard]] int to_place(int rank) const {
    if (numbering_ == Numbering::Mirrored) return ranks_ - 1 - rank;
    return numbering_ == Numbering::Shifted ? (rank + ranks_ - 1) % ranks_ : rank;
  }

  int ranks_;
  Numbering numbering_;
  std::vector<int> up_;  // by place
  std::vector<int> depth_, send_time_;
  int top_ = 0;
};

/// The chunks of a part of the vector.
class Chunks {
 public:
  Chunks(Extent whole, std::int64_t size) : whole_(whole), size_(size) {}
  [[nodiscard]] std::int64_t count() const { return (whole_.count + size_ - 1) / size_; }
  [[nodiscard]] Extent operator[](std::int64_t c) const { return {whole_.offset + c * size_, std::min(size_, whole_.count - c * size_)}; }

 private:
  Extent whole_;
  std::int64_t size_;
};

/// Transfers by the step they belong to.
using Timetable = std::map<std::int64_t, std::vector<Action>>;

Action sending(int peer, Range from, bool wide = false) {
  return {.kind = Action::Kind::Send, .peer = peer, .to = {}, .from = from, .with = {}, .wide = wide};
}
Action receiving(int peer, Range to) {
  return {.kind = Action::Kind::Receive, .peer = peer, .to = to, .from = {}, .with = {}, .wide = false};
}

/// Sums of a rank's subtree go up. They are kept in the output, or in scratch where they are wider.
void go_up(Timetable& steps, const BinaryTree& tree, const Request& request, const Chunks& chunks, std::int64_t kept, int rank) {
  const auto sum = [&](Extent e) { return request.wide ? scratch(kept + e.offset, e.count) : output(e); };
  std::vector<int> children = tree.children(rank);
  std::sort(children.begin(), children.end(), [&](int a, int b) { return tree.send_time(a) < tree.send_time(b); });
  const int parent = tree.parent(rank);
  for (std::int64_t c = 0; c < chunks.count(); ++c) {
    const Extent e = chunks[c];
    for (std::size_t i = 0; i < children.size(); ++i) {
      const bool is_last = i + 1 == children.size();
      steps[tree.send_time(children[i]) + c].push_back({.kind = Action::Kind::ReceiveReduce,
                                                        .peer = children[i],
                                                        .to = parent < 0 && is_last ? output(e) : sum(e),
                                                        .from = {},
                                                        .with = i == 0 ? input(e) : sum(e),
                                                        .wide = request.wide && !tree.children(children[i]).empty()});
    }
    if (parent >= 0) {
      const bool is_leaf = children.empty();
      steps[tree.send_time(rank) + c].push_back(sending(parent, is_leaf ? input(e) : sum(e), request.wide && !is_leaf));
    }
  }
}

/// What the root has comes down; its first chunk leaves in step `start`.
void go_down(Timetable& steps, const BinaryTree& tree, const Chunks& chunks, std::int64_t start, int rank, Buffer of_root, int shift,
             int ranks) {
  const auto real = [&](int r) { return (r + shift) % ranks; };
  const int parent = tree.parent(rank), depth = tree.depth(rank);
  for (std::int64_t c = 0; c < chunks.count(); ++c) {
    const Extent e = chunks[c];
    if (parent >= 0) steps[start + depth - 1 + c].push_back(receiving(real(parent), output(e)));
    for (const int child : tree.children(rank)) {
      const Range from{parent < 0 ? of_root : Buffer::Output, 0, e.offset, e.count};
      steps[start + depth + c].push_back(sending(real(child), from));
    }
  }
}

void emit(ProgramBuilder& builder, const Timetable& steps) {
  for (const auto& [time, actions] : steps) {
    for (const Action& a : actions) {
      builder.cut();
      switch (a.kind) {
        case Action::Kind::Send: builder.send(a.peer, a.from, a.wide); break;
        case Action::Kind::Receive: builder.receive(a.peer, a.to, a.wide); break;
        default: builder.receive_reduce(a.peer, a.to, a.with, a.wide);
      }
    }
    builder.next_step();
  }
}

void all_reduce(ProgramBuilder& builder, const Request& request, int rank) {
  const int n = request.ranks();
  if (n == 1) return copy_input(builder, request, {0, request.count});
  const std::int64_t half = (request.count + 1) / 2;
  const Extent halves[] = {{0, half}, {half, request.count - half}};
  const BinaryTree trees[] = {{n, BinaryTree::Numbering::Plain}, BinaryTree::second(n)};
  const std::int64_t kept = builder.scratch(request.wide ? request.count : 0);
  Timetable steps;
  for (std::size_t t = 0; t < 2; ++t) {
    const Chunks chunks(halves[t], std::min(request.chunk, std::max<std::int64_t>(half, 1)));
    go_up(steps, trees[t], request, chunks, kept, rank);
    go_down(steps, trees[t], chunks, trees[t].top(), rank, Buffer::Output, 0, n);
  }
  emit(builder, steps);
}

void broadcast(ProgramBuilder& builder, const Request& request, int rank) {
  const int n = request.ranks();
  Timetable steps;
  go_down(steps, BinaryTree(n, BinaryTree::Numbering::Plain), Chunks({0, request.count}, request.chunk), 0, (rank - request.root + n) % n,
          Buffer::Input, request.root, n);
  emit(builder, steps);
  if (rank == request.root) copy_input(builder, request, {0, request.count});
}

}  // namespace

Program tree(const Request& request, int rank) {
  ProgramBuilder builder;
  if (request.collective == Collective::Broadcast) {
    broadcast(builder, request, rank);
  } else {
    all_reduce(builder, request, rank);
  }
  return builder.finish();
}

}  // namespace oxrse::comm

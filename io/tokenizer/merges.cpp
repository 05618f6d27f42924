#include "io/tokenizer/merges.h"

#include <algorithm>
#include <cstddef>

namespace oxrse::io {
namespace {

constexpr std::int32_t kNone = -1;

struct Node {
  std::int32_t token = 0;  // kNone when it was joined to its left neighbour
  std::int32_t previous = kNone, next = kNone;
};

struct Candidate {
  std::int32_t rank, left;     // the left node of the pair
  std::int32_t first, second;  // the tokens when the candidate was found: it is void when they changed
  std::int32_t result;
};

/// For a heap with the smallest on top.
bool later(const Candidate& a, const Candidate& b) { return a.rank != b.rank ? a.rank > b.rank : a.left > b.left; }

/// A piece while it is merged.
class Chain {
 public:
  Chain(const MergeTable& merges, std::span<const std::int32_t> tokens) : merges_(merges), nodes_(tokens.size()) {
    const auto n = static_cast<std::int32_t>(tokens.size());
    for (std::int32_t i = 0; i < n; ++i) nodes_[i] = {tokens[i], i - 1, i + 1 < n ? i + 1 : kNone};
    for (std::int32_t i = 0; i < n; ++i) consider(i, false);
    std::make_heap(heap_.begin(), heap_.end(), later);
  }

  void run() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const Candidate best = heap_.back();
      heap_.pop_back();
      if (is_current(best)) join(best);
    }
  }

  void copy_to(std::vector<std::int32_t>& tokens) const {
    tokens.clear();
    for (std::int32_t i = 0; i != kNone; i = nodes_[i].next) tokens.push_back(nodes_[i].token);
  }

 private:
  void consider(std::int32_t left, bool push) {
    if (left == kNone || nodes_[left].next == kNone) return;
    const std::int32_t first = nodes_[left].token;
    const std::int32_t second = nodes_[nodes_[left].next].token;
    const Merge* merge = merges_.find(first, second);
    if (merge == nullptr) return;
    heap_.push_back({merge->rank, left, first, second, merge->result});
    if (push) std::push_heap(heap_.begin(), heap_.end(), later);
  }

  [[nodiscard]] bool is_current(const Candidate& candidate) const {
    const Node& left = nodes_[candidate.left];
    return left.token == candidate.first && left.next != kNone && nodes_[left.next].token == candidate.second;
  }

  void join(const Candidate& candidate) {
    Node& left = nodes_[candidate.left];
    Node& right = nodes_[left.next];
    left.token = candidate.result;
    left.next = right.next;
    right.token = kNone;
    if (left.next != kNone) nodes_[left.next].previous = candidate.left;
    consider(left.previous, true);
    consider(candidate.left, true);
  }

  const MergeTable& merges_;
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace

void apply_merges(const MergeTable& merges, std::vector<std::int32_t>& tokens) {
  if (tokens.size() < 2) return;
  Chain chain(merges, tokens);
  chain.run();
  chain.copy_to(tokens);
}

}  // namespace oxrse::io

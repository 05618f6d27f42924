#pragma once

#include <cstdint>
#include <vector>

namespace oxrse::comm {

/// A sum over micro-batches [begin, end) that part `part` of a rank's input holds.
struct Block {
  std::int64_t begin = 0, end = 0;
  int rank = 0;
  int part = 0;
};

/// The order in which contributions are added: a binary tree whose leaves are inputs of ranks. Nodes stand behind their children, the root
/// is the last.
class ReductionTree {
 public:
  struct Node {
    int left = -1, right = -1;  // -1: a leaf
    int rank = 0, part = 0;     // of a leaf
    int height = 0;             // 0: a leaf
    std::vector<int> ranks;     // that have a leaf below, ascending

    [[nodiscard]] bool is_leaf() const { return left < 0; }
    [[nodiscard]] bool has(int rank) const;
  };

  /// Pairs of neighbours, then pairs of pairs, and so on: ranks [0, n) with one input each.
  static ReductionTree pairwise(int ranks);
  /// Pairwise inside nodes of `per_node` ranks, then pairwise over the nodes. `ranks` is a multiple of `per_node`.
  static ReductionTree by_node(int ranks, int per_node);
  /// The tree in which nn::Gradients adds micro-batches [0, n), where the blocks, which cover them in order, are already added up. An
  /// Error says which block is no node of it.
  static ReductionTree of_blocks(const std::vector<Block>& blocks);

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] int root() const { return static_cast<int>(nodes_.size()) - 1; }
  /// The most inputs any rank has.
  [[nodiscard]] int parts() const;
  /// For every node, the rank that holds its sum of the elements that `owner` shall have in the end. A sum stays on the rank it is made
  /// on where that has part in the next one, and the ranks of a node take turns for owners outside of it.
  [[nodiscard]] std::vector<int> holders(int owner) const;

 private:
  int add_leaf(int rank, int part);
  int add_sum(int left, int right);
  int add_pairwise(int begin, int end);

  std::vector<Node> nodes_;
};

/// The largest power of two below n > 1: how many of n things the left half of a pairwise sum has.
std::int64_t left_of_pairwise(std::int64_t n);

}  // namespace oxrse::comm

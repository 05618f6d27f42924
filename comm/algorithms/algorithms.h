#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/schedule.h"

// Every algorithm is a function that writes the program of one rank. S elements, n ranks; times are in comm/cost.h.
namespace oxrse::comm {

/// Writes a program step by step. Empty transfers are left out, at both ends alike, and so are steps without actions.
class ProgramBuilder {
 public:
  void send(int peer, const Range& from, bool wide = false);
  void receive(int peer, const Range& to, bool wide = false);
  void receive_reduce(int peer, const Range& to, const Range& with, bool wide = false);
  void copy(const Range& to, const Range& from);
  void reduce(const Range& to, const Range& with, const Range& from);
  /// What follows waits for what came before.
  void next_step();
  /// The next transfer is a message of its own even where it continues the one before.
  void cut() { joins_ = false; }
  /// Reserves scratch and returns its offset.
  std::int64_t scratch(std::int64_t count);
  Program finish();

 private:
  void add(const Action& action);

  Program program_;
  Step step_;
  bool joins_ = false;
};

/// Elements [offset, offset + count) of the whole vector.
struct Extent {
  std::int64_t offset = 0, count = 0;
};
inline Extent share_of(const Request& r, int s) { return {r.bounds[static_cast<std::size_t>(s)], r.share(s)}; }
inline Range input(Extent e, int part = 0) { return {Buffer::Input, part, e.offset, e.count}; }
inline Range output(Extent e) { return {Buffer::Output, 0, e.offset, e.count}; }
inline Range scratch(std::int64_t offset, std::int64_t count) { return {Buffer::Scratch, 0, offset, count}; }

/// Copies a rank's input to where its output is, unless they are one.
void copy_input(ProgramBuilder& builder, const Request& request, Extent extent);

/// Ring: every rank talks to its two neighbours only. Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009. A reduce-scatter
/// sends a share round the ring and adds to it, an all-gather sends the sums round once more. A broadcast is a chain of chunks, an
/// all-to-all a rotation of n-1 steps.
Program ring(const Request& request, int rank);

/// Two binary trees, each for half of the vector: sums go up in chunks and come down while later chunks go up. Sanders, Speck and Traeff,
/// "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009. No rank is an inner node of both trees when n is even, one
/// is when n is odd, so that sending is shared evenly. A broadcast takes one tree.
Program tree(const Request& request, int rank);

/// Recursive doubling: halves of growing groups exchange whole vectors, neighbours first; the tree of the request, for any n. For a
/// broadcast, a binomial tree.
Program doubling(const Request& request, int rank);

/// Recursive halving and doubling for any n: on the way up the request's tree, a group's sum is spread over the group's ranks, so
/// that every level sends half of the one before. Neighbours come first. The all-gather is the mirror image. Rabenseifner, "Optimization of
/// collective reduction operations", 2004, with the order turned round.
Program halving(const Request& request, int rank);

/// Everyone sends to everyone: two steps, scratch for all but one of the contributions to a share. Sums follow the request's tree.
Program direct(const Request& request, int rank);

/// `halving` over the tree that adds inside nodes before it adds over nodes, so that between nodes only 2 S (N-1) / (g N) elements a rank
/// are sent, for N nodes of g ranks.
Program hierarchical(const Request& request, int rank);

/// Bytes that one rank sends another.
struct Message {
  int from = 0, to = 0;
  std::int64_t bytes = 0;
};

/// Messages among n ranks that travel at the same time. Input i is the memory of the i-th message that this rank sends or receives, in
/// elements of 4 bytes. An Error where a message has no bytes, or leads from a rank to itself or to none.
Program messages(std::span<const Message> messages, int rank, int n);

}  // namespace oxrse::comm

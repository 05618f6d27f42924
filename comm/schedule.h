#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/reduction_tree.h"

// A collective is compiled to a program for every rank: plain data that is checked, priced, printed and executed.
namespace oxrse::comm {

enum class Collective : std::uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll, Broadcast };
inline constexpr Collective kCollectives[] = {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather, Collective::AllToAll,
                                              Collective::Broadcast};

enum class Algorithm : std::uint8_t { Ring, Tree, Doubling, Halving, Direct, Hierarchical };
inline constexpr Algorithm kAlgorithms[] = {Algorithm::Ring,    Algorithm::Tree,   Algorithm::Doubling,
                                            Algorithm::Halving, Algorithm::Direct, Algorithm::Hierarchical};

/// "all_reduce", "ring".
std::string_view name_of(Collective collective);
std::string_view name_of(Algorithm algorithm);

/// What is asked of a collective. Elements of the whole vector are numbered [0, count); share s of it is [bounds[s], bounds[s+1]).
///
///     all_reduce      every rank: count elements in, their sum over the ranks out
///     reduce_scatter  count elements in, share `rank` of the sum out
///     all_gather      share `rank` in, count elements out
///     all_to_all      count elements in, of which rank p gets share p; share p out is what p sent. Shares are equal.
///     broadcast       count elements of `root` in, everywhere out
///
/// In place, input and output are one memory: the output of a reduce_scatter is where that share of the input was, the input of an
/// all_gather where that share of the output is.
struct Request {
  Collective collective = Collective::AllReduce;
  std::int64_t count = 0;
  std::vector<std::int64_t> bounds;  // ranks + 1 ascending offsets, 0 first, count last
  int root = 0;
  bool in_place = false;
  bool wide = false;             // sums need a wider type than elements have (bf16, f16): they must not be kept or sent as elements
  int ranks_per_node = 1;        // what `hierarchical` goes by: ranks 0 .. g-1 are the first node
  std::int64_t chunk = 1 << 16;  // elements that pipelined algorithms send at once
  std::int64_t segment = 0;      // elements of a share that an all-reduce by the others sums and sends before it goes on; 0: all
  ReductionTree tree;            // whose contributions are summed, and in which order where the algorithm keeps one

  [[nodiscard]] int ranks() const { return static_cast<int>(bounds.size()) - 1; }
  [[nodiscard]] std::int64_t share(int s) const { return bounds[static_cast<std::size_t>(s) + 1] - bounds[static_cast<std::size_t>(s)]; }
};

/// The n + 1 bounds of shares that differ by one element at the most.
std::vector<std::int64_t> even_bounds(std::int64_t count, int ranks);

/// A request with even shares and one contribution a rank, summed pairwise.
Request request(Collective collective, int ranks, std::int64_t count);

/// Where elements are. Scratch holds elements of the accumulator type.
enum class Buffer : std::uint8_t { Input, Output, Scratch };

/// Elements [offset, offset + count) of a buffer. Input and output are addressed by the numbers of the whole vector, also where only a
/// share of it is there. `part` tells the contributions of a rank that has several apart; it is 0 for other buffers.
struct Range {
  Buffer buffer = Buffer::Input;
  int part = 0;
  std::int64_t offset = 0, count = 0;

  bool operator==(const Range&) const = default;
};

/// One thing to do.
struct Action {
  enum class Kind : std::uint8_t {
    Send,           // from -> peer
    Receive,        // to = what peer sends
    ReceiveReduce,  // to = with + what peer sends
    Copy,           // to = from
    Reduce,         // to = with + from
  };
  Kind kind = Kind::Send;
  int peer = -1;
  Range to, from, with;
  bool wide = false;  // what is sent has the accumulator type: it comes from scratch

  bool operator==(const Action&) const = default;
};

/// Transfers that run at the same time, in any order except that messages between two ranks keep theirs; then local actions one by one.
struct Step {
  std::vector<Action> transfers;
  std::vector<Action> local;

  bool operator==(const Step&) const = default;
};

/// What one rank does.
struct Program {
  std::vector<Step> steps;
  std::int64_t scratch = 0;  // elements
};

/// The programs of all ranks.
struct Schedule {
  Request request;
  Algorithm algorithm = Algorithm::Ring;
  std::vector<Program> programs;
};

/// Whether an algorithm can do a request.
bool supports(Algorithm algorithm, const Request& request);

/// The program of one rank. An Error says why the algorithm cannot do the request.
Program compile(Algorithm algorithm, const Request& request, int rank);
Schedule compile_all(Algorithm algorithm, const Request& request);

/// A schedule as text, one line an action: "  send    out[4..8) -> 2".
std::string to_text(const Schedule& schedule);

}  // namespace oxrse::comm

#include "comm/schedule.h"

#include <algorithm>

#include "comm/algorithms/algorithms.h"
#include "engine/core/error.h"

namespace oxrse::comm {
namespace {

std::string text_of(const Range& r) {
  constexpr std::string_view kNames[] = {"in", "out", "scratch"};
  const std::string part = r.part == 0 ? "" : fmt::format("#{}", r.part);
  return fmt::format("{}{}[{}..{})", kNames[static_cast<std::size_t>(r.buffer)], part, r.offset, r.offset + r.count);
}

std::string text_of(const Action& a) {
  const std::string wide = a.wide ? " (wide)" : "";
  switch (a.kind) {
    case Action::Kind::Send: return fmt::format("send    {} -> {}{}", text_of(a.from), a.peer, wide);
    case Action::Kind::Receive: return fmt::format("receive {} <- {}{}", text_of(a.to), a.peer, wide);
    case Action::Kind::ReceiveReduce: return fmt::format("reduce  {} = {} + from {}{}", text_of(a.to), text_of(a.with), a.peer, wide);
    case Action::Kind::Copy: return fmt::format("copy    {} = {}", text_of(a.to), text_of(a.from));
    case Action::Kind::Reduce: return fmt::format("reduce  {} = {} + {}", text_of(a.to), text_of(a.with), text_of(a.from));
  }
  return "";
}

bool keeps_tree(Algorithm algorithm) {
  return algorithm == Algorithm::Doubling || algorithm == Algorithm::Halving || algorithm == Algorithm::Direct;
}

Program compile_whole(Algorithm algorithm, const Request& request, int rank) {
  switch (algorithm) {
    case Algorithm::Ring: return ring(request, rank);
    case Algorithm::Tree: return tree(request, rank);
    case Algorithm::Doubling: return doubling(request, rank);
    case Algorithm::Halving: return halving(request, rank);
    case Algorithm::Direct: return direct(request, rank);
    case Algorithm::Hierarchical: return hierarchical(request, rank);
  }
  return {};
}

/// Adds the program of the segment that begins at element `begin`.
void append(Program& program, Program segment, std::int64_t begin) {
  const auto shift = [&](Action& a) {
    for (Range* range : {&a.to, &a.from, &a.with}) {
      if (range->buffer != Buffer::Scratch) range->offset += begin;
    }
  };
  for (Step& step : segment.steps) {
    std::ranges::for_each(step.transfers, shift);
    std::ranges::for_each(step.local, shift);
    program.steps.push_back(std::move(step));
  }
  program.scratch = std::max(program.scratch, segment.scratch);
}

/// An all-reduce one segment after the other: what a rank has summed is still in its cache when it is sent on, and scratch is small.
Program compile_segments(Algorithm algorithm, const Request& request, int rank) {
  Program program;
  const std::int64_t most = request.segment * request.ranks();
  Request part = request;
  for (std::int64_t begin = 0; begin < request.count; begin += most) {
    part.count = std::min(most, request.count - begin);
    part.bounds = even_bounds(part.count, request.ranks());
    append(program, compile_whole(algorithm, part, rank), begin);
  }
  return program;
}

}  // namespace

std::string_view name_of(Collective collective) {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"};
  return kNames[static_cast<std::size_t>(collective)];
}

std::string_view name_of(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {"ring", "tree", "doubling", "halving", "direct", "hierarchical"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

std::vector<std::int64_t> even_bounds(std::int64_t count, int ranks) {
  std::vector<std::int64_t> bounds;
  for (int s = 0; s <= ranks; ++s) bounds.push_back(count / ranks * s + std::min<std::int64_t>(s, count % ranks));
  return bounds;
}

Request request(Collective collective, int ranks, std::int64_t count) {
  return {.collective = collective, .count = count, .bounds = even_bounds(count, ranks), .tree = ReductionTree::pairwise(ranks)};
}

bool supports(Algorithm algorithm, const Request& r) {
  const bool sums = r.collective == Collective::AllReduce || r.collective == Collective::ReduceScatter;
  const bool has_parts = sums && r.tree.parts() > 1;
  if (has_parts && (r.wide || !r.in_place || algorithm == Algorithm::Doubling || !keeps_tree(algorithm))) return false;
  switch (algorithm) {
    case Algorithm::Ring:
    case Algorithm::Direct: return true;
    case Algorithm::Tree:
    case Algorithm::Doubling: return r.collective == Collective::AllReduce || r.collective == Collective::Broadcast;
    case Algorithm::Halving: return sums || r.collective == Collective::AllGather;
    case Algorithm::Hierarchical:
      return (sums || r.collective == Collective::AllGather) && r.ranks_per_node > 1 && r.ranks_per_node < r.ranks() &&
             r.ranks() % r.ranks_per_node == 0;
  }
  return false;
}

Program compile(Algorithm algorithm, const Request& request, int rank) {
  require(supports(algorithm, request), "{} by {} of {} ranks with {} contributions a rank is not possible: choose another algorithm",
          name_of(request.collective), name_of(algorithm), request.ranks(), request.tree.parts());
  require(request.collective != Collective::AllToAll || request.count % request.ranks() == 0,
          "all_to_all of {} elements over {} ranks: the number must be a multiple of the ranks", request.count, request.ranks());
  const bool cuts = request.collective == Collective::AllReduce && algorithm != Algorithm::Tree && request.segment > 0;
  if (cuts && request.count > request.segment * request.ranks()) return compile_segments(algorithm, request, rank);
  return compile_whole(algorithm, request, rank);
}

Schedule compile_all(Algorithm algorithm, const Request& request) {
  Schedule schedule{.request = request, .algorithm = algorithm, .programs = {}};
  for (int rank = 0; rank < request.ranks(); ++rank) schedule.programs.push_back(compile(algorithm, request, rank));
  return schedule;
}

std::string to_text(const Schedule& schedule) {
  const Request& r = schedule.request;
  std::string text =
      fmt::format("{} by {}: {} elements, {} ranks\n", name_of(r.collective), name_of(schedule.algorithm), r.count, r.ranks());
  for (std::size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    const Program& program = schedule.programs[rank];
    text += fmt::format("rank {}{}\n", rank, program.scratch > 0 ? fmt::format(" (scratch {})", program.scratch) : "");
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      std::string label = fmt::format("{}", s);
      for (const auto* list : {&program.steps[s].transfers, &program.steps[s].local}) {
        for (const Action& a : *list) {
          text += fmt::format("  {:>3}  {}\n", label, text_of(a));
          label.clear();
        }
      }
    }
  }
  return text;
}

}  // namespace oxrse::comm

#include "comm/algorithms/algorithms.h"

namespace oxrse::comm {
namespace {

/// Gets all contributions to the own share and adds them up in the order of the tree.
class ShareSum {
 public:
  ShareSum(ProgramBuilder& builder, const Request& request, int rank) : builder_(builder), request_(request), rank_(rank) {}

  void exchange() {
    const auto& nodes = request_.tree.nodes();
    const Extent own = share_of(request_, rank_);
    slots_.resize(nodes.size());
    for (std::size_t v = 0; v < nodes.size(); ++v) {
      if (!nodes[v].is_leaf()) continue;
      if (nodes[v].rank == rank_) {
        for (int p = 0; p < request_.ranks(); ++p) {
          if (p != rank_) send(p, nodes[v].part);
        }
        slots_[v] = input(own, nodes[v].part);
      } else {
        slots_[v] = scratch(builder_.scratch(own.count), own.count);
        builder_.cut();
        builder_.receive(nodes[v].rank, slots_[v]);
      }
    }
    sum(request_.tree.root());
    builder_.next_step();
  }

 private:
  void send(int peer, int part) {
    builder_.cut();
    builder_.send(peer, input(share_of(request_, peer), part));
  }

  [[nodiscard]] bool writable(const Range& r) const {
    return r.buffer == Buffer::Scratch || (r.buffer == Buffer::Input && request_.in_place && !request_.wide);
  }

  /// Emits the sum of node v and returns where it is.
  Range sum(int v) {
    const auto& node = request_.tree.nodes()[static_cast<std::size_t>(v)];
    const Extent own = share_of(request_, rank_);
    if (node.is_leaf()) return slots_[static_cast<std::size_t>(v)];
    const Range left = sum(node.left), right = sum(node.right);
    Range to = output(own);
    if (v != request_.tree.root()) to = writable(left) ? left : right;
    if (v != request_.tree.root() && !writable(to)) to = scratch(builder_.scratch(own.count), own.count);
    builder_.reduce(to, left, right);
    return to;
  }

  ProgramBuilder& builder_;
  const Request& request_;
  int rank_;
  std::vector<Range> slots_;  // by node
};

void all_gather(ProgramBuilder& builder, const Request& request, int rank) {
  for (int k = 1; k < request.ranks(); ++k) {
    const int p = (rank + k) % request.ranks();
    builder.cut();
    builder.send(p, output(share_of(request, rank)));
    builder.cut();
    builder.receive(p, output(share_of(request, p)));
  }
  builder.next_step();
}

void all_to_all(ProgramBuilder& builder, const Request& request, int rank) {
  const std::int64_t kept = request.in_place ? builder.scratch(request.count) : 0;
  if (request.in_place) builder.copy(scratch(kept, request.count), input({0, request.count}));
  builder.next_step();
  for (int k = 1; k < request.ranks(); ++k) {
    const int to = (rank + k) % request.ranks(), from = (rank - k + request.ranks()) % request.ranks();
    const Extent out = share_of(request, to);
    builder.cut();
    builder.send(to, request.in_place ? scratch(kept + out.offset, out.count) : input(out), request.wide && request.in_place);
    builder.cut();
    builder.receive(from, output(share_of(request, from)), request.wide && request.in_place);
  }
  copy_input(builder, request, share_of(request, rank));
}

void broadcast(ProgramBuilder& builder, const Request& request, int rank) {
  const Extent whole{0, request.count};
  if (rank != request.root) return builder.receive(request.root, output(whole));
  for (int p = 0; p < request.ranks(); ++p) {
    if (p != rank) builder.send(p, input(whole));
  }
  copy_input(builder, request, whole);
}

}  // namespace

Program direct(const Request& request, int rank) {
  ProgramBuilder builder;
  const Extent own = share_of(request, rank);
  const bool sums = request.collective == Collective::AllReduce || request.collective == Collective::ReduceScatter;
  if (sums && request.tree.nodes().size() == 1) {
    copy_input(builder, request, own);
  } else if (sums) {
    ShareSum(builder, request, rank).exchange();
    if (request.collective == Collective::AllReduce) all_gather(builder, request, rank);
  } else if (request.collective == Collective::AllGather) {
    copy_input(builder, request, own);
    builder.next_step();
    all_gather(builder, request, rank);
  } else if (request.collective == Collective::AllToAll) {
    all_to_all(builder, request, rank);
  } else {
    broadcast(builder, request, rank);
  }
  return builder.finish();
}

}  // namespace oxrse::comm

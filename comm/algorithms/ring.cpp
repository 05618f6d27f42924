#include <algorithm>

#include "comm/algorithms/algorithms.h"

namespace oxrse::comm {
namespace {

int modulo(int a, int n) { return ((a % n) + n) % n; }

/// Share s starts at rank s+1 and gathers a contribution at every rank until it is complete at rank s.
void reduce_scatter(ProgramBuilder& builder, const Request& request, int rank) {
  const int n = request.ranks();
  const bool in_output = request.collective == Collective::AllReduce && !request.wide;
  std::int64_t largest = 0;
  for (int s = 0; s < n; ++s) largest = std::max(largest, request.share(s));
  const std::int64_t slots = in_output || n < 3 ? 0 : builder.scratch(2 * largest);
  const auto partial = [&](int s, int k) {  // the sum that step k makes of share s
    const Extent share = share_of(request, s);
    return in_output || k == n - 2 ? output(share) : scratch(slots + k % 2 * largest, share.count);
  };
  for (int k = 0; k < n - 1; ++k) {
    const int out = modulo(rank - k - 1, n), in = modulo(rank - k - 2, n);
    builder.send(modulo(rank + 1, n), k == 0 ? input(share_of(request, out)) : partial(out, k - 1), request.wide && k > 0);
    builder.receive_reduce(modulo(rank - 1, n), partial(in, k), input(share_of(request, in)), request.wide && k > 0);
    builder.next_step();
  }
}

void all_gather(ProgramBuilder& builder, const Request& request, int rank) {
  const int n = request.ranks();
  for (int k = 0; k < n - 1; ++k) {
    builder.send(modulo(rank + 1, n), output(share_of(request, modulo(rank - k, n))));
    builder.receive(modulo(rank - 1, n), output(share_of(request, modulo(rank - k - 1, n))));
    builder.next_step();
  }
}

/// Chunk c leaves the rank at distance d from the root in step c + d.
void broadcast(ProgramBuilder& builder, const Request& request, int rank) {
  const int n = request.ranks(), d = modulo(rank - request.root, n);
  const std::int64_t chunks = (request.count + request.chunk - 1) / request.chunk;
  const auto chunk = [&](std::int64_t c) { return Extent{c * request.chunk, std::min(request.chunk, request.count - c * request.chunk)}; };
  for (std::int64_t t = 0; t < chunks + n - 1; ++t) {
    const std::int64_t in = t - (d - 1), out = t - d;
    if (d > 0 && in >= 0 && in < chunks) builder.receive(modulo(rank - 1, n), output(chunk(in)));
    if (d < n - 1 && out >= 0 && out < chunks) builder.send(modulo(rank + 1, n), d == 0 ? input(chunk(out)) : output(chunk(out)));
    builder.next_step();
  }
  if (d == 0) copy_input(builder, request, {0, request.count});
}

void all_to_all(ProgramBuilder& builder, const Request& request, int rank) {
  const int n = request.ranks();
  const Extent whole{0, request.count};
  const std::int64_t kept = request.in_place ? builder.scratch(request.count) : 0;
  if (request.in_place) builder.copy(scratch(kept, whole.count), input(whole));
  builder.next_step();
  for (int k = 1; k < n; ++k) {
    const Extent out = share_of(request, modulo(rank + k, n));
    builder.send(modulo(rank + k, n), request.in_place ? scratch(kept + out.offset, out.count) : input(out),
                 request.wide && request.in_place);
    builder.receive(modulo(rank - k, n), output(share_of(request, modulo(rank - k, n))), request.wide && request.in_place);
    builder.next_step();
  }
  copy_input(builder, request, share_of(request, rank));
}

}  // namespace

Program ring(const Request& request, int rank) {
  ProgramBuilder builder;
  const Extent own = share_of(request, rank);
  switch (request.collective) {
    case Collective::AllReduce:
      if (request.ranks() == 1) copy_input(builder, request, own);
      reduce_scatter(builder, request, rank);
      all_gather(builder, request, rank);
      break;
    case Collective::ReduceScatter:
      if (request.ranks() == 1) copy_input(builder, request, own);
      reduce_scatter(builder, request, rank);
      break;
    case Collective::AllGather:
      copy_input(builder, request, own);
      builder.next_step();
      all_gather(builder, request, rank);
      break;
    case Collective::AllToAll: all_to_all(builder, request, rank); break;
    case Collective::Broadcast: broadcast(builder, request, rank); break;
  }
  return builder.finish();
}

}  // namespace oxrse::comm

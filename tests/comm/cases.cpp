#include "tests/comm/cases.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "engine/core/philox.h"
#include "tests/comm/vector.h"

namespace oxrse::comm::testing {
namespace {

/// What rank r must have at i of its output.
double expected(const Request& r, int rank, std::int64_t i) {
  const auto share_of = [&](std::int64_t e) {
    return static_cast<int>(std::upper_bound(r.bounds.begin(), r.bounds.end(), e) - r.bounds.begin()) - 1;
  };
  switch (r.collective) {
    case Collective::Broadcast: return contribution(r.root, i);
    case Collective::AllGather: return contribution(share_of(i), i);
    case Collective::AllToAll: {
      const int from = share_of(i);
      return contribution(from, r.bounds[static_cast<std::size_t>(rank)] + i - r.bounds[static_cast<std::size_t>(from)]);
    }
    default: break;
  }
  double sum = 0;
  for (int p = 0; p < r.ranks(); ++p) sum += contribution(p, i);
  return sum;
}

/// Carries out a request on this rank and counts what is wrong in its output.
std::int64_t wrong_elements(Communicator& ranks, const Request& r, DType type, Algorithm algorithm) {
  Vector in(ranks, r.count, type), out(ranks, r.count, type);
  Vector& result = r.in_place ? in : out;
  for (std::int64_t i = 0; i < r.count; ++i) {
    in.set(i, contribution(ranks.rank(), i));
    if (!r.in_place) out.set(i, std::nan(""));
  }
  in.upload();
  out.upload();
  ranks.wait(ranks.start(ranks.plan(r, type, algorithm), operands(ranks, type, in, result), "test"));
  in.download();
  out.download();
  const bool is_share = r.collective == Collective::ReduceScatter;
  std::int64_t wrong = in.guards_are_whole() && out.guards_are_whole() ? 0 : 1;
  for (std::int64_t i = 0; i < r.count; ++i) {
    const bool mine =
        !is_share || (i >= r.bounds[static_cast<std::size_t>(ranks.rank())] && i < r.bounds[static_cast<std::size_t>(ranks.rank()) + 1]);
    if (mine && !(result[i] == expected(r, ranks.rank(), i))) ++wrong;
    if (!r.in_place && !(in[i] == contribution(ranks.rank(), i))) ++wrong;  // the input is left alone
  }
  return wrong;
}

std::vector<std::int64_t> counts(Collective collective, int n) {
  if (collective == Collective::AllToAll) return {0, n, 7 * n};
  return {0, 1, n - 1, n + 1, 1000};
}

}  // namespace

Tally all_collectives(Communicator& ranks, const std::vector<DType>& types) {
  const int n = ranks.size();
  Tally tally;
  for (const Collective collective : kCollectives) {
    for (const std::int64_t count : counts(collective, n)) {
      for (const DType type : types) {
        for (const bool in_place : {false, true}) {
          Request r = request(collective, n, count);
          r.in_place = in_place;
          r.root = collective == Collective::Broadcast ? n - 1 : 0;
          for (const Algorithm algorithm : kAlgorithms) {
            if (!supports(algorithm, r)) continue;
            tally.wrong += wrong_elements(ranks, r, type, algorithm);
            ++tally.done;
          }
        }
      }
    }
  }
  return tally;
}

Tally large_sums(Communicator& ranks) {
  const std::int64_t count = 3 * HostExecution::kPieceBytes / 4 + 12345;  // of f32: several pieces and a rest
  Tally tally;
  for (const Algorithm algorithm : kAlgorithms) {
    for (const DType type : {DType::F32, DType::BF16}) {
      const Request r = request(Collective::AllReduce, ranks.size(), count);
      if (!supports(algorithm, r)) continue;
      tally.wrong += wrong_elements(ranks, r, type, algorithm);
      ++tally.done;
    }
  }
  return tally;
}

Tally wide_sums(Communicator& ranks) {
  Tally tally;
  for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::Tree, Algorithm::Doubling, Algorithm::Halving, Algorithm::Direct}) {
    const Request r = request(Collective::AllReduce, ranks.size(), 33);
    const auto check_sum = [&](DType type, double mine, double sum) {
      Vector in(ranks, 33, type), out(ranks, 33, type);
      for (std::int64_t i = 0; i < 33; ++i) in.set(i, mine);
      in.upload();
      ranks.wait(ranks.start(ranks.plan(r, type, algorithm), operands(ranks, type, in, out), "test"));
      out.download();
      for (std::int64_t i = 0; i < 33; ++i) tally.wrong += out[i] == sum ? 0 : 1;
      ++tally.done;
    };
    check_sum(DType::BF16, 1, 8);
    // 256 and 1 do not fit into the 8 bits of a bf16 together; 263 rounds once, to 264.
    check_sum(DType::BF16, ranks.rank() == 0 ? 256 : 1, 264);
    // Sums in between leave the range of an f16.
    check_sum(DType::F16, ranks.rank() < 4 ? 60000 : -60000, 0);
    check_sum(DType::F16, 8000, 64000);
  }
  return tally;
}

Tally sums_in_flight(Communicator& ranks) {
  constexpr std::int64_t kCount = 20000;
  std::vector<Vector> data;
  std::vector<Communicator::Ticket> tickets;
  for (int k = 0; k < 10; ++k) {
    data.emplace_back(ranks, kCount, DType::F32);
    for (std::int64_t i = 0; i < kCount; ++i) data.back().set(i, contribution(ranks.rank(), i + k));
    data.back().upload();
  }
  Request r = request(Collective::AllReduce, ranks.size(), kCount);
  r.in_place = true;
  const auto plan = ranks.plan(r, DType::F32);
  for (const Vector& v : data) tickets.push_back(ranks.start(plan, operands(ranks, DType::F32, v, v), "test"));
  Tally tally;
  for (std::size_t k = tickets.size(); k-- > 0; ++tally.done) {
    ranks.wait(tickets[k]);
    data[k].download();
    for (std::int64_t i = 0; i < kCount; ++i) {
      double sum = 0;
      for (int p = 0; p < ranks.size(); ++p) sum += contribution(p, i + static_cast<std::int64_t>(k));
      tally.wrong += data[k][i] == sum ? 0 : 1;
    }
  }
  ranks.barrier();
  return tally;
}

Tally memory_after_the_end(Communicator& ranks, bool halts) {
  constexpr std::int64_t kCount = 1 << 20;
  constexpr double kWhile = 0.3;  // seconds in which what is sent would arrive
  std::vector<float> data(kCount, 1.0F);
  Request r = request(Collective::AllGather, ranks.size(), kCount);
  r.in_place = true;
  std::byte* bytes = reinterpret_cast<std::byte*>(data.data());
  const auto start = [&] {
    return ranks.start(ranks.plan(r, DType::F32, Algorithm::Direct), {.type = DType::F32, .inputs = {bytes}, .output = bytes}, "test");
  };
  Tally tally;
  ranks.barrier();
  if (ranks.rank() == 0) ranks.advance_in_background();
  // Rank 0 starts, rank 2 ends it where rank 0 does not, and what rank 1 sends comes too late.
  std::this_thread::sleep_for(std::chrono::duration<double>(ranks.rank() == 0 ? 0 : kWhile / (ranks.rank() == 2 ? 6 : 3)));
  if (ranks.rank() == 0) {
    try {
      const auto ticket = start();  // the error is here already if this thread had to wait for a processor
      if (halts) ranks.halt();
      ranks.wait(ticket);
      ++tally.wrong;
    } catch (const Error&) {
      ++tally.done;
    }
    std::fill(data.begin(), data.end(), 7.0F);
  } else if (ranks.rank() == 2 && !halts) {
    ranks.abort("enough");
  } else {
    start();
  }
  ranks.wait_until_reported(kWhile);  // until then this rank's messages move
  if (ranks.rank() == 0) tally.wrong += kCount - std::count(data.begin(), data.end(), 7.0F);
  ranks.abort("enough");
  return tally;
}

float random_value(int rank, std::int64_t i) {
  return static_cast<float>(RandomStream(5, static_cast<std::uint64_t>(rank)).normal(static_cast<std::uint64_t>(i)));
}

std::vector<float> sum_of_random(Communicator& ranks, std::int64_t count, Algorithm algorithm) {
  Vector data(ranks, count, DType::F32);
  for (std::int64_t i = 0; i < count; ++i) data.set(i, static_cast<double>(random_value(ranks.rank(), i)));
  data.upload();
  Request r = request(Collective::AllReduce, ranks.size(), count);
  r.in_place = true;
  ranks.wait(ranks.start(ranks.plan(r, DType::F32, algorithm), operands(ranks, DType::F32, data, data), "test"));
  data.download();
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<float>(data[i]));
  return result;
}

namespace {

void run_in_place(Communicator& ranks, Request r, DType type) {
  Vector data(ranks, r.count, type);
  for (std::int64_t i = 0; i < r.count; ++i) data.set(i, 1);
  data.upload();
  r.in_place = true;
  ranks.wait(ranks.start(ranks.plan(r, type), operands(ranks, type, data, data), "test"));
}

}  // namespace

void sum_of(Communicator& ranks, std::int64_t count, DType type) {
  run_in_place(ranks, request(Collective::AllReduce, ranks.size(), count), type);
}

void broadcast_of(Communicator& ranks, std::int64_t count) {
  Request r = request(Collective::Broadcast, ranks.size(), count);
  r.root = 1;
  run_in_place(ranks, r, DType::F32);
}

const std::vector<Disagreement>& disagreements() {
  using Ranks = Communicator&;
  static const std::vector<Disagreement> all = {
      {[](Ranks r) { sum_of(r, 100); }, [](Ranks r) { sum_of(r, 101); }, "all_reduce of 100 f32", "all_reduce of 101 f32"},
      {[](Ranks r) { sum_of(r, 100); }, [](Ranks r) { sum_of(r, 100, DType::BF16); }, "all_reduce of 100 f32", "all_reduce of 100 bf16"},
      // The same number of bytes: on a transport without tags this would go through.
      {[](Ranks r) { sum_of(r, 100, DType::F64); }, [](Ranks r) { sum_of(r, 200); }, "all_reduce of 100 f64", "all_reduce of 200 f32"},
      {[](Ranks r) { sum_of(r, 50); }, [](Ranks r) { broadcast_of(r, 50), r.barrier(); }, "all_reduce of 50 f32", "broadcast of 50 f32"},
      {[](Ranks r) { sum_of(r, 8), sum_of(r, 9); }, [](Ranks r) { sum_of(r, 9), sum_of(r, 8); }, "all_reduce of 8 f32",
       "all_reduce of 9 f32"},
      // Of which rank 2 has no part.
      {[](Ranks r) {
         r.wait(r.start(r.plan(std::vector<Message>{{0, 1, 0}}), {}, "test")), sum_of(r, 1);
       },
       [](Ranks r) { sum_of(r, 1), sum_of(r, 1); }, "messages, 1 in all", "all_reduce of 1 f32"}};
  return all;
}

}  // namespace oxrse::comm::testing

// Every schedule is proven on symbols: who gets what, in which order it is added, and that nobody waits for ever.

#include <set>

#include "comm/checker.h"
#include "comm/schedule.h"
#include "engine/core/error.h"
#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::comm;

namespace {

/// Counts that divide evenly and that do not, none at all included.
std::vector<std::int64_t> counts(Collective collective, int n) {
  if (collective == Collective::AllToAll) return {0, n, 3 * n};
  if (n > 10) return {1, n - 1, 2 * n + 3};
  std::set<std::int64_t> all = {0, 1, 7, n - 1, n, n + 1, 2 * n + 3};
  return {all.begin(), all.end()};
}

/// Requests of every kind that a collective of n ranks may be.
std::vector<Request> requests(Collective collective, int n) {
  std::vector<Request> all;
  for (const std::int64_t count : counts(collective, n)) {
    for (const bool in_place : {false, true}) {
      for (const bool wide : {false, true}) {
        Request r = request(collective, n, count);
        r.in_place = in_place;
        r.wide = wide;
        r.chunk = 3;
        r.root = collective == Collective::Broadcast ? (n - 1) / 2 : 0;
        for (const int g : {2, 3, 4}) {
          if (n % g == 0 && n > g) r.ranks_per_node = g;
        }
        all.push_back(r);
        if (collective != Collective::AllReduce || count <= n) continue;
        r.segment = (count + 2 * n) / (3 * n);
        all.push_back(std::move(r));
      }
    }
  }
  return all;
}

bool keeps_tree(Algorithm a) { return a == Algorithm::Doubling || a == Algorithm::Halving || a == Algorithm::Direct; }

/// Blocks of `each` micro-batches a rank, cut where the pairwise tree over all of them is.
std::vector<Block> blocks_of(int ranks, int each) {
  std::vector<Block> blocks;
  const std::int64_t all = std::int64_t{ranks} * each;
  for (int r = 0; r < ranks; ++r) {
    std::vector<Block> own;
    for (std::int64_t m = std::int64_t{r} * each; m < std::int64_t{r + 1} * each; ++m) {
      own.push_back({m, m + 1, r, 0});
      while (own.size() > 1) {
        Block &a = own[own.size() - 2], &b = own.back();
        const std::int64_t size = b.end - b.begin;
        if (a.end - a.begin != size || a.begin % (2 * size) != 0) break;
        a.end = b.end;
        own.pop_back();
      }
    }
    for (std::size_t p = 0; p < own.size(); ++p) {
      own[p].part = static_cast<int>(p);
      blocks.push_back(own[p]);
    }
  }
  REQUIRE(blocks.back().end == all);
  return blocks;
}

}  // namespace

TEST_CASE("every algorithm does every collective, for any number of ranks", "[comm][schedules]") {
  int checked = 0;
  for (int n = 1; n <= 32; ++n) {
    for (const Collective collective : kCollectives) {
      for (const Request& r : requests(collective, n)) {
        for (const Algorithm algorithm : kAlgorithms) {
          if (!supports(algorithm, r)) continue;
          const Checked result = check(compile_all(algorithm, r));
          if (keeps_tree(algorithm) || n <= 2) {
            INFO(name_of(algorithm) << " " << n << " " << r.count);
            REQUIRE(result.keeps_tree);
          }
          ++checked;
        }
      }
    }
  }
  CHECK(checked > 5000);
}

TEST_CASE("ring and tree add in other orders than the pairwise tree", "[comm][schedules]") {
  for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::Tree}) {
    const Checked other = check(compile_all(algorithm, request(Collective::AllReduce, 8, 64)));
    const Checked pairwise = check(compile_all(Algorithm::Halving, request(Collective::AllReduce, 8, 64)));
    CHECK_FALSE(other.keeps_tree);
    CHECK(other.sum_class != pairwise.sum_class);
    CHECK(pairwise.sum_class == check(compile_all(Algorithm::Doubling, request(Collective::AllReduce, 8, 64))).sum_class);
  }
}

TEST_CASE("no algorithm sends more than its formula says", "[comm][schedules]") {
  for (const int n : {2, 3, 5, 8, 12, 16, 31}) {
    const std::int64_t S = 60 * n;
    const auto sent = [&](Algorithm a, Collective c) { return check(compile_all(a, request(c, n, S))).most_sent; };
    const std::int64_t share = S / n;
    for (const Algorithm a : {Algorithm::Ring, Algorithm::Direct, Algorithm::Halving}) {
      INFO(name_of(a) << " " << n);
      CHECK(sent(a, Collective::ReduceScatter) == share * (n - 1));
      // Halves of unequal size make some ranks send more than others on the way down.
      const double more = a == Algorithm::Halving && (n & (n - 1)) != 0 ? 1.5 : 1;
      CHECK(static_cast<double>(sent(a, Collective::AllGather)) <= more * static_cast<double>(share * (n - 1)));
      CHECK(static_cast<double>(sent(a, Collective::AllReduce)) <= (1 + more) * static_cast<double>(share * (n - 1)));
    }
    CHECK(sent(Algorithm::Tree, Collective::AllReduce) <= 2 * S + 2);
    CHECK(sent(Algorithm::Ring, Collective::AllToAll) == share * (n - 1));
    CHECK(sent(Algorithm::Direct, Collective::AllToAll) == share * (n - 1));
  }
  CHECK(check(compile_all(Algorithm::Doubling, request(Collective::AllReduce, 16, 64))).most_sent == 4 * 64);
}

TEST_CASE("hierarchical sends little between nodes", "[comm][schedules]") {
  const int g = 3, nodes = 4, n = g * nodes;
  Request r = request(Collective::AllReduce, n, 120 * n);
  r.ranks_per_node = g;
  const Schedule schedule = compile_all(Algorithm::Hierarchical, r);
  check(schedule);
  std::int64_t most = 0;
  for (int rank = 0; rank < n; ++rank) {
    std::int64_t between = 0;
    for (const Step& step : schedule.programs[static_cast<std::size_t>(rank)].steps) {
      for (const Action& a : step.transfers) {
        if (a.kind == Action::Kind::Send && a.peer / g != rank / g) between += a.from.count;
      }
    }
    most = std::max(most, between);
  }
  CHECK(most == 2 * r.count * (nodes - 1) / (g * nodes));
}

TEST_CASE("the two trees share their inner nodes fairly", "[comm][schedules]") {
  // Who sends a chunk of the second half to more than one rank is an inner node of the second tree.
  for (int n = 3; n <= 32; ++n) {
    Request r = request(Collective::AllReduce, n, 2);  // one element a tree
    const Schedule schedule = compile_all(Algorithm::Tree, r);
    int both = 0;
    for (const Program& program : schedule.programs) {
      bool adds[2] = {false, false};
      for (const Step& step : program.steps) {
        for (const Action& a : step.transfers) {
          if (a.kind == Action::Kind::ReceiveReduce) adds[a.to.offset] = true;
        }
      }
      both += adds[0] && adds[1] ? 1 : 0;
    }
    INFO(n);
    CHECK(both == n % 2);
  }
}

TEST_CASE("sums over micro-batches keep their tree however they are spread", "[comm][schedules]") {
  for (int n = 1; n <= 12; ++n) {
    for (const int each : {1, 2, 3, 4, 5, 6, 7, 12, 24}) {
      for (const Collective collective : {Collective::AllReduce, Collective::ReduceScatter}) {
        Request r = request(collective, n, 2 * n + 1);
        r.in_place = true;
        r.tree = ReductionTree::of_blocks(blocks_of(n, each));
        for (const Algorithm algorithm : {Algorithm::Halving, Algorithm::Direct}) {
          INFO(n << " ranks of " << each << " by " << name_of(algorithm));
          CHECK(check(compile_all(algorithm, r)).keeps_tree);
        }
        CHECK(check(compile_all(Algorithm::Halving, r)).scratch == 0);
      }
    }
  }
}

TEST_CASE("uneven and empty shares", "[comm][schedules]") {
  for (const Collective collective : {Collective::ReduceScatter, Collective::AllGather, Collective::AllReduce}) {
    Request r = request(collective, 5, 17);
    r.bounds = {0, 0, 9, 9, 16, 17};
    for (const Algorithm algorithm : kAlgorithms) {
      for (const bool in_place : {false, true}) {
        r.in_place = in_place;
        if (supports(algorithm, r)) check(compile_all(algorithm, r));
      }
    }
  }
}

TEST_CASE("the text of a schedule", "[comm][schedules]") {
  CHECK(to_text(compile_all(Algorithm::Ring, request(Collective::AllReduce, 2, 5))) ==
        "all_reduce by ring: 5 elements, 2 ranks\n"
        "rank 0\n"
        "    0  send    in[3..5) -> 1\n"
        "       reduce  out[0..3) = in[0..3) + from 1\n"
        "    1  send    out[0..3) -> 1\n"
        "       receive out[3..5) <- 1\n"
        "rank 1\n"
        "    0  send    in[0..3) -> 0\n"
        "       reduce  out[3..5) = in[3..5) + from 0\n"
        "    1  send    out[3..5) -> 0\n"
        "       receive out[0..3) <- 0\n");
}

namespace {

/// All schedules that differ from `good` in one thing that matters.
std::vector<std::pair<std::string, Schedule>> mutations(const Schedule& good) {
  std::vector<std::pair<std::string, Schedule>> all;
  const int n = good.request.ranks();
  for (std::size_t r = 0; r < good.programs.size(); ++r) {
    for (std::size_t s = 0; s < good.programs[r].steps.size(); ++s) {
      const auto mutate = [&](const std::string& what, const auto& change) {
        Schedule bad = good;
        change(bad.programs[r].steps[s], bad.programs[r]);
        all.emplace_back(fmt::format("{}: rank {} step {}", what, r, s), std::move(bad));
      };
      mutate("step dropped", [&](Step&, Program& p) { p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(s)); });
      const Step& step = good.programs[r].steps[s];
      for (std::size_t i = 0; i < step.transfers.size(); ++i) {
        const auto at = static_cast<std::ptrdiff_t>(i);
        mutate("transfer dropped", [&](Step& t, Program&) { t.transfers.erase(t.transfers.begin() + at); });
        mutate("transfer doubled", [&](Step& t, Program&) { t.transfers.insert(t.transfers.begin() + at, t.transfers[i]); });
        mutate("peer swapped", [&](Step& t, Program&) { t.transfers[i].peer = (t.transfers[i].peer + 1) % n; });
        mutate("count", [&](Step& t, Program&) {
          for (Range* range : {&t.transfers[i].from, &t.transfers[i].to, &t.transfers[i].with}) range->count -= range->count > 0 ? 1 : 0;
        });
        if (step.transfers[i].kind == Action::Kind::Receive) {
          mutate("contribution doubled", [&](Step& t, Program&) {
            t.transfers[i].kind = Action::Kind::ReceiveReduce;
            t.transfers[i].with = t.transfers[i].to;
          });
        }
        if (step.transfers[i].kind == Action::Kind::ReceiveReduce) {
          mutate("contribution lost", [&](Step& t, Program&) {
            t.transfers[i].kind = Action::Kind::Receive;
            t.transfers[i].with = {};
          });
        }
        mutate("offset", [&](Step& t, Program&) {
          Range& range = t.transfers[i].kind == Action::Kind::Send ? t.transfers[i].from : t.transfers[i].to;
          range.offset += range.offset > 0 ? -1 : 1;
        });
      }
      for (std::size_t i = 0; i < step.local.size(); ++i) {
        mutate("local action dropped", [&](Step& t, Program&) { t.local.erase(t.local.begin() + static_cast<std::ptrdiff_t>(i)); });
        if (step.local[i].kind == Action::Kind::Reduce) {
          mutate("sum doubled", [&](Step& t, Program&) { t.local[i].from = t.local[i].with; });
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a schedule with one thing wrong is always caught", "[comm][schedules]") {
  int caught = 0;
  for (const Collective collective : kCollectives) {
    for (const int n : {2, 3, 6}) {
      for (const bool in_place : {false, true}) {
        Request r = request(collective, n, 2 * n);
        r.in_place = in_place;
        r.chunk = 3;
        r.ranks_per_node = 2;
        for (const Algorithm algorithm : kAlgorithms) {
          if (!supports(algorithm, r)) continue;
          const Schedule good = compile_all(algorithm, r);
          check(good);
          for (const auto& [what, bad] : mutations(good)) {
            INFO(name_of(collective) << " by " << name_of(algorithm) << ", " << n << " ranks, " << what);
            CHECK_THROWS_AS(check(bad), Error);
            ++caught;
          }
        }
      }
    }
  }
  CHECK(caught > 1000);
}

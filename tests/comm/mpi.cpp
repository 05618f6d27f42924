// Ranks that are processes: this program starts itself under mpirun. Tests whose tag begins with a point are what it does there.

#include "comm/transport/mpi.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/catch.h"
#include "tests/comm/cases.h"
#include "tests/comm/has_mpi.h"
#include "tests/io/temporary.h"

using namespace oxrse;
using namespace oxrse::comm;
using namespace oxrse::comm::testing;
using Catch::Matchers::Contains;

namespace {

struct Result {
  int status = 0;
  std::string text;  // of standard output and error
};

/// This program with a tag, on ranks.
Result run_self(int ranks, const std::string& tag, const std::string& environment) {
  const io::TemporaryDirectory directory;
  const std::string out = (directory / "out").string(), self = std::filesystem::read_symlink("/proc/self/exe").string();
  const int status = std::system(
      fmt::format("env {} timeout 120 mpirun -n {} '{}' '[{}]' >'{}' 2>&1 </dev/null", environment, ranks, self, tag, out).c_str());
  std::ifstream stream(out, std::ios::binary);
  return {status, {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()}};
}

}  // namespace

TEST_CASE("over MPI: every algorithm on every type and size", "[.mpi-collectives]") {
  MpiSession session;
  if (session.size() == 1) return;  // called by name, outside of run_self
  Communicator ranks(session.transport(), {});
  const Tally all = all_collectives(ranks, {DType::F32, DType::BF16, DType::F16, DType::F64}), large = large_sums(ranks);
  CHECK(all.wrong == 0);
  CHECK(all.done > 400);
  CHECK(large.wrong == 0);
  CHECK(large.done >= 10);
  CHECK(sums_in_flight(ranks).wrong == 0);
  ranks.advance_in_background();
  CHECK(sums_in_flight(ranks).wrong == 0);
}

TEST_CASE("over MPI: a rank calls something else", "[.mpi-disagreement]") {
  MpiSession session;
  if (session.size() == 1) return;  // called by name, outside of run_self
  Communicator ranks(session.transport(), {.choice = {}, .timeout_s = 60, .query_s = 0.1});
  const Disagreement& d = disagreements().at(std::strtoul(std::getenv("OXRSE_TEST_DISAGREEMENT"), nullptr, 10));
  try {
    (session.rank() == 1 ? d.rank_1 : d.others)(ranks);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    throw;
  }
}

TEST_CASE("over MPI: an operation ends early", "[.mpi-end]") {
  MpiSession session;
  if (session.size() == 1) return;  // called by name, outside of run_self
  const bool halts = std::getenv("OXRSE_TEST_HALTS") != nullptr;
  Communicator ranks(session.transport(), {});
  const Tally tally = memory_after_the_end(ranks, halts);
  if (ranks.rank() == 0) {
    fmt::print("errors {}, wrong {}\n", tally.done, tally.wrong);
    std::fflush(nullptr);
    ranks.tell_reported();
  } else {
    ranks.wait_until_reported(2);  // mpirun ends all when one ends
  }
  std::_Exit(0);  // as after any error, what was given up is not waited for
}

TEST_CASE("collectives over MPI", "[comm][mpi]") {
  if (!test::has_mpi()) return;
  for (const int n : {2, 3, 5}) {
    const Result result = run_self(n, ".mpi-collectives", "OMP_NUM_THREADS=1");
    INFO(result.text);
    CHECK(result.status == 0);
    CHECK_THAT(result.text, Contains("All tests passed"));
  }
}

TEST_CASE("over MPI, operands are left alone once a rank has the error that ended an operation", "[comm][mpi]") {
  if (!test::has_mpi()) return;
  for (const char* environment : {"OMP_NUM_THREADS=1", "OMP_NUM_THREADS=1 OXRSE_TEST_HALTS=1"}) {
    const Result result = run_self(3, ".mpi-end", environment);
    INFO(result.text);
    CHECK_THAT(result.text, Contains("errors 1, wrong 0") && !Contains("signal 11"));
  }
}

TEST_CASE("over MPI, ranks that call different things are named, with what they called", "[comm][mpi]") {
  if (!test::has_mpi()) return;
  for (std::size_t i = 0; i < disagreements().size(); ++i) {
    const Disagreement& d = disagreements()[i];
    const Result result = run_self(3, ".mpi-disagreement", fmt::format("OXRSE_TEST_DISAGREEMENT={}", i));
    INFO(result.text);
    CHECK(result.status != 0);
    CHECK_THAT(result.text, Contains("error: ") && Contains(d.text) && Contains(d.text_of_1) && Contains("(test) on rank 1 (host ") &&
                                (Contains("(test) on rank 0 (host ") || Contains("(test) on rank 2 (host ")) &&
                                Contains("same operations in the same order"));
  }
}

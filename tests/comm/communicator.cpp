// Collectives on data: against sums in f64, for every algorithm, type and size; and what happens when ranks do not agree. All over every
// transport that ranks in threads may have; over MPI in mpi.cpp.

#include "comm/communicator.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include "tests/catch.h"
#include "tests/comm/cases.h"
#include "tests/comm/ranks.h"
#include "tests/comm/vector.h"
#ifdef OXRSE_HAVE_CUDA_EMULATION
#include "tests/comm/nccl/ranks.h"
#include "tests/comm/nccl/stand_in/stand_in.h"
#endif

using namespace oxrse;
using namespace oxrse::comm;
using namespace oxrse::comm::testing;
using Catch::Matchers::Contains;

namespace {

/// Ranks whose memory is the host's, or that of GPUs: the same code as with CUDA and NCCL, whose calls tests/comm/nccl/stand_in carries
/// out.
enum class Over : std::uint8_t { Threads, Gpus };

std::vector<Over> transports() {
#ifdef OXRSE_HAVE_CUDA_EMULATION
  return {Over::Threads, Over::Gpus};
#else
  return {Over::Threads};
#endif
}

std::vector<std::string> run_over(Over over, int n, const std::function<void(Communicator&)>& body, const Settings& settings = {}) {
#ifdef OXRSE_HAVE_CUDA_EMULATION
  if (over == Over::Gpus) {
    const stand_in::Machine machine(n);
    auto errors = run_gpu_ranks(n, body, settings);
    const bool all_well = std::all_of(errors.begin(), errors.end(), [](const std::string& error) { return error.empty(); });
    if (all_well && stand_in::Machine::allocated() != 0) errors[0] = "memory is left on the GPUs";
    return errors;
  }
#endif
  return run_ranks(n, body, settings);
}

/// The sum over the ranks of what a case counts.
Tally tally_of(Over over, int n, const std::function<Tally(Communicator&)>& body) {
  std::atomic<std::int64_t> wrong = 0, done = 0;
  const auto errors = run_over(over, n, [&](Communicator& ranks) {
    const Tally tally = body(ranks);
    wrong += tally.wrong;
    done += tally.done;
  });
  for (const std::string& error : errors) CHECK(error.empty());
  return {.done = done, .wrong = wrong};
}

}  // namespace

TEST_CASE("every algorithm on every type, size and number of ranks", "[comm]") {
  for (const Over over : transports()) {
    for (const int n : {1, 2, 3, 5, 6, 8}) {
      if (over == Over::Gpus && n > 5) continue;  // their kernels are emulated thread by thread
      std::vector<DType> types = {DType::F32, DType::BF16, DType::F16, DType::F64};
      if (over == Over::Gpus && n > 3) types = {DType::F32, DType::BF16};
      const Tally tally = tally_of(over, n, [&](Communicator& ranks) { return all_collectives(ranks, types); });
      INFO(n << " ranks" << (over == Over::Gpus ? " on GPUs" : ""));
      CHECK(tally.wrong == 0);
      CHECK(tally.done > 100 * n * std::ssize(types));
    }
  }
}

TEST_CASE("large transfers travel in pieces", "[comm]") {
  for (const Over over : transports()) {
    const Tally tally = tally_of(over, 3, large_sums);
    CHECK(tally.wrong == 0);
    CHECK(tally.done > 3 * 5);
  }
}

TEST_CASE("random numbers are as near to their sum in f64 as rounding allows, with the same bits everywhere", "[comm]") {
  const std::int64_t count = 5000;
  for (const int n : {3, 8}) {
    for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::Tree, Algorithm::Doubling, Algorithm::Halving, Algorithm::Direct}) {
      std::vector<std::vector<float>> results;  // of the ranks over all transports
      for (const Over over : transports()) {
        const std::size_t before = results.size();
        results.resize(before + static_cast<std::size_t>(n));
        const auto errors = run_over(over, n, [&](Communicator& ranks) {
          results[before + static_cast<std::size_t>(ranks.rank())] = sum_of_random(ranks, count, algorithm);
        });
        for (const std::string& error : errors) CHECK(error.empty());
      }
      double worst = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        double sum = 0, size = 0;
        for (int r = 0; r < n; ++r) {
          sum += static_cast<double>(random_value(r, i));
          size += std::abs(static_cast<double>(random_value(r, i)));
        }
        const double error = std::abs(static_cast<double>(results[0][static_cast<std::size_t>(i)]) - sum) / (size * 0x1p-24 * n);
        if (!(error <= worst)) worst = error;
      }
      INFO(name_of(algorithm) << " " << n);
      CHECK(worst <= 1);
      for (const auto& other : results) {
        CHECK((other.size() == results[0].size() && std::memcmp(other.data(), results[0].data(), other.size() * sizeof(float)) == 0));
      }
    }
  }
}

TEST_CASE("sums of 16-bit types are made in f32", "[comm]") {
  for (const Over over : transports()) {
    const Tally tally = tally_of(over, 8, wide_sums);
    CHECK(tally.wrong == 0);
    CHECK(tally.done == 8 * 5 * 4);
  }
}

TEST_CASE("several operations in flight, waited for in any order, with and without a thread of their own", "[comm]") {
  for (const Over over : transports()) {
    for (const bool background : {false, true}) {
      const Tally tally = tally_of(over, 4, [&](Communicator& ranks) {
        if (background) ranks.advance_in_background();
        return sums_in_flight(ranks);
      });
      CHECK(tally.wrong == 0);
      CHECK(tally.done == 4 * 10);
    }
  }
}

TEST_CASE("texts and numbers", "[comm]") {
  std::atomic<int> wrong = 0;
  const auto errors = run_ranks(3, [&](Communicator& ranks) {
    for (const std::string& text : {std::string(), std::string("a"), std::string(1001, 'x') + '\0' + "end"}) {
      if (ranks.broadcast(ranks.rank() == 1 ? text : "other", 1) != text) ++wrong;
    }
    const auto text_of = [](int rank) { return std::string(static_cast<std::size_t>(5 * (2 - rank)), static_cast<char>('a' + rank)); };
    if (ranks.all_gather(text_of(ranks.rank())) != std::vector<std::string>{text_of(0), text_of(1), ""}) ++wrong;
    double numbers[] = {1.0 * ranks.rank(), 0.5};
    ranks.all_reduce(numbers);
    if (numbers[0] != 3 || numbers[1] != 1.5) ++wrong;
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(wrong == 0);
}

TEST_CASE("ranks that call different things are named, with what they called", "[comm]") {
  for (const Over over : transports()) {
    for (const Disagreement& d : disagreements()) {
      const auto begin = std::chrono::steady_clock::now();
      const auto errors = run_over(over, 3, [&](Communicator& ranks) { (ranks.rank() == 1 ? d.rank_1 : d.others)(ranks); },
                                   {.choice = {}, .timeout_s = 60, .query_s = 0.1});
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
      for (const std::string& error : errors) {
        INFO(error);
        CHECK_THAT(error, Contains(d.text) && Contains(d.text_of_1) && Contains("rank 1") && Contains("same operations in the same order"));
      }
    }
  }
}

TEST_CASE("a rank that never comes is named after the time allowed", "[comm]") {
  for (const Over over : transports()) {
    for (const bool background : {false, true}) {
      const auto errors = run_over(over, 3,
                                   [&](Communicator& ranks) {
                                     ranks.barrier("start");
                                     if (background) ranks.advance_in_background();
                                     ranks.set_step(7);
                                     if (ranks.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
                                     sum_of(ranks, 10);
                                   },
                                   {.choice = {}, .timeout_s = 1, .query_s = 0.1});
      for (const std::string& error : errors) {
        INFO(error);
        CHECK_THAT(error,
                   Contains("rank 2 (thread 2 of process") && Contains("all_reduce of 10 f32") && Contains("(test)") && Contains("step 7"));
        CHECK_THAT(error, Contains("does not answer") || Contains("has come to operation"));
        if (background) CHECK_THAT(error, Contains("has come to operation"));
      }
    }
  }
}

TEST_CASE("without a limit a rank may take its time as long as it answers", "[comm]") {
  const bool answers = GENERATE(true, false);
  const auto errors = run_ranks(3,
                                [&](Communicator& ranks) {
                                  ranks.barrier("start");
                                  if (answers || ranks.rank() != 2) ranks.advance_in_background();
                                  if (ranks.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
                                  ranks.barrier("test", false);
                                },
                                {.choice = {}, .timeout_s = 0.5, .query_s = 0.1});
  for (const std::string& error : errors) {
    INFO(error);
    if (answers) CHECK(error.empty());
    if (!answers) CHECK_THAT(error, Contains("rank 2 (thread 2 of process") && Contains("does not answer") && Contains("(test)"));
  }
}

TEST_CASE("messages of any sizes arrive, beside sums", "[comm]") {
  const std::vector<Message> messages = {{0, 1, 1}, {1, 2, 0}, {2, 0, 3'000'001}, {0, 1, 4096}, {2, 1, 700'003}};
  const auto byte_of = [](std::size_t message, std::int64_t i) {
    return static_cast<std::byte>((i * 31 + static_cast<std::int64_t>(message)) % 251);
  };
  std::atomic<std::int64_t> right{0};
  const auto errors = run_ranks(3, [&](Communicator& ranks) {
    std::vector<std::vector<std::byte>> memory;  // of this rank's messages, filled by who sends
    Operands operands{DType::F32, {}, nullptr};
    for (std::size_t m = 0; m < messages.size(); ++m) {
      if (messages[m].from != ranks.rank() && messages[m].to != ranks.rank()) continue;
      auto& bytes = memory.emplace_back(static_cast<std::size_t>((messages[m].bytes + 3) / 4 * 4));
      for (std::int64_t i = 0; messages[m].from == ranks.rank() && i < messages[m].bytes; ++i)
        bytes[static_cast<std::size_t>(i)] = byte_of(m, i);
    }
    for (auto& bytes : memory) operands.inputs.push_back(bytes.data());
    const auto ticket = ranks.start(ranks.plan(messages), operands, "test");
    for (int i = 0; i < 20; ++i) sum_of(ranks, 1000);
    while (!ranks.done(ticket)) std::this_thread::yield();
    ranks.wait(ticket);
    for (std::size_t m = 0, mine = 0; m < messages.size(); ++m) {
      if (messages[m].from != ranks.rank() && messages[m].to != ranks.rank()) continue;
      const auto& bytes = memory[mine++];
      for (std::int64_t i = 0; i < messages[m].bytes; ++i) {
        require(bytes[static_cast<std::size_t>(i)] == byte_of(m, i), "byte {} of message {} on rank {}", i, m, ranks.rank());
      }
      ++right;
    }
    ranks.barrier("test");  // all go on while others receive
  });
  for (const std::string& error : errors) CHECK(error == "");
  CHECK(right == 2 * std::ssize(messages));
  for (const std::string& error : run_ranks(2, [](Communicator& r) { static_cast<void>(r.plan(std::vector<Message>{{1, 1, 8}})); })) {
    CHECK_THAT(error, Contains("a message of 8 bytes from rank 1 to rank 1"));
  }
}

TEST_CASE("operands are left alone once a rank has the error that ended an operation", "[comm]") {
  for (const bool halts : {false, true}) {
    const Tally tally = tally_of(Over::Threads, 3, [&](Communicator& ranks) { return memory_after_the_end(ranks, halts); });
    CHECK(tally.wrong == 0);
    CHECK(tally.done == 1);
  }
}

TEST_CASE("a rank that fails ends the others with its reason", "[comm]") {
  for (const Over over : transports()) {
    const auto errors = run_over(over, 4,
                                 [&](Communicator& ranks) {
                                   sum_of(ranks, 10);
                                   require(ranks.rank() != 3, "no disk is left");
                                   sum_of(ranks, 10);
                                 },
                                 {.choice = {}, .timeout_s = 60, .query_s = 0.1});
    CHECK(errors[3] == "no disk is left");
    for (int r = 0; r < 3; ++r) {
      CHECK_THAT(errors[static_cast<std::size_t>(r)], Contains("rank 3 (thread 3") && Contains("no disk is left"));
    }
  }
}

// Collectives on data: against sums in f64, for every algorithm, type and size; and what happens when ranks do not agree.

#include "comm/communicator.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include "engine/core/philox.h"
#include "tests/catch.h"
#include "tests/comm/ranks.h"

using namespace oxrse;
using namespace oxrse::comm;
using Catch::Matchers::Contains;
using testing::run_ranks;

namespace {

constexpr std::int64_t kGuard = 8;  // bytes around buffers that must stay as they are

/// What rank r contributes at element i: small whole numbers, whose sums are exact in every type and order.
double contribution(int r, std::int64_t i) { return static_cast<double>((i * 7 + r * 3) % 5 - 2); }

double read(const std::byte* p, DType type) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, p, sizeof value);
    return value;
  };
  if (type == DType::F64) return as(0.0);
  if (type == DType::F32) return static_cast<double>(as(0.0F));
  return type == DType::BF16 ? static_cast<double>(static_cast<float>(as(bf16()))) : static_cast<double>(static_cast<float>(as(f16())));
}
void write(std::byte* p, DType type, double value) {
  const auto as = [&](auto x) { std::memcpy(p, &x, sizeof x); };
  if (type == DType::F64) return as(value);
  if (type == DType::F32) return as(static_cast<float>(value));
  if (type == DType::BF16) return as(bf16(static_cast<float>(value)));
  as(f16(static_cast<float>(value)));
}

/// Memory of whole vectors that begins off any alignment but the element's, with guards around.
class Vector {
 public:
  Vector(std::int64_t count, DType type)
      : type_(type), bytes_(static_cast<std::size_t>(count * size_of(type) + 2 * kGuard), std::byte{0xA5}) {}
  std::byte* data() { return bytes_.data() + kGuard; }
  double operator[](std::int64_t i) { return read(data() + i * size_of(type_), type_); }
  void set(std::int64_t i, double value) { write(data() + i * size_of(type_), type_, value); }
  [[nodiscard]] bool guards_are_whole() const {
    const auto good = [](std::byte b) { return b == std::byte{0xA5}; };
    return std::all_of(bytes_.begin(), bytes_.begin() + kGuard, good) && std::all_of(bytes_.end() - kGuard, bytes_.end(), good);
  }

 private:
  DType type_;
  std::vector<std::byte> bytes_;
};

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
  Vector in(r.count, type), out(r.count, type);
  Vector& result = r.in_place ? in : out;
  for (std::int64_t i = 0; i < r.count; ++i) {
    in.set(i, contribution(ranks.rank(), i));
    if (!r.in_place) out.set(i, std::nan(""));
  }
  ranks.wait(ranks.start(ranks.plan(r, type, algorithm), {type, {in.data()}, result.data()}, "test"));
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

TEST_CASE("every algorithm on every type, size and number of ranks", "[comm]") {
  for (const int n : {1, 2, 3, 5, 6, 8}) {
    std::atomic<std::int64_t> wrong = 0, done = 0;
    const auto errors = run_ranks(n, [&](Communicator& ranks) {
      for (const Collective collective : kCollectives) {
        for (const std::int64_t count : counts(collective, n)) {
          for (const DType type : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
            for (const bool in_place : {false, true}) {
              Request r = request(collective, n, count);
              r.in_place = in_place;
              r.root = collective == Collective::Broadcast ? n - 1 : 0;
              for (const Algorithm algorithm : kAlgorithms) {
                if (!supports(algorithm, r)) continue;
                wrong += wrong_elements(ranks, r, type, algorithm);
                ++done;
              }
            }
          }
        }
      }
    });
    for (const std::string& error : errors) CHECK(error.empty());
    INFO(n << " ranks");
    CHECK(wrong == 0);
    CHECK(done > 400 * n);
  }
}

TEST_CASE("large transfers travel in pieces", "[comm]") {
  const std::int64_t count = 3 * Execution::kPieceBytes / 4 + 12345;  // of f32: several pieces and a rest
  std::atomic<std::int64_t> wrong = 0;
  const auto errors = run_ranks(3, [&](Communicator& ranks) {
    for (const Algorithm algorithm : kAlgorithms) {
      for (const DType type : {DType::F32, DType::BF16}) {
        const Request r = request(Collective::AllReduce, 3, count);
        if (supports(algorithm, r)) wrong += wrong_elements(ranks, r, type, algorithm);
      }
    }
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(wrong == 0);
}

TEST_CASE("random numbers are as near to their sum in f64 as rounding allows, with the same bits everywhere", "[comm]") {
  const std::int64_t count = 5000;
  for (const int n : {3, 8}) {
    std::vector<std::vector<float>> results(static_cast<std::size_t>(n));
    const auto value = [](int rank, std::int64_t i) {
      return static_cast<float>(RandomStream(5, static_cast<std::uint64_t>(rank)).normal(static_cast<std::uint64_t>(i)));
    };
    for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::Tree, Algorithm::Doubling, Algorithm::Halving, Algorithm::Direct}) {
      const auto errors = run_ranks(n, [&](Communicator& ranks) {
        auto& data = results[static_cast<std::size_t>(ranks.rank())];
        data.resize(static_cast<std::size_t>(count));
        for (std::int64_t i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = value(ranks.rank(), i);
        Request r = request(Collective::AllReduce, n, count);
        r.in_place = true;
        auto* bytes = reinterpret_cast<std::byte*>(data.data());
        ranks.wait(ranks.start(ranks.plan(r, DType::F32, algorithm), {DType::F32, {bytes}, bytes}));
      });
      for (const std::string& error : errors) CHECK(error.empty());
      double worst = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        double sum = 0, size = 0;
        for (int r = 0; r < n; ++r) {
          sum += static_cast<double>(value(r, i));
          size += std::abs(static_cast<double>(value(r, i)));
        }
        const double error = std::abs(static_cast<double>(results[0][static_cast<std::size_t>(i)]) - sum) / (size * 0x1p-24 * n);
        if (!(error <= worst)) worst = error;
      }
      INFO(name_of(algorithm) << " " << n);
      CHECK(worst <= 1);
      for (const auto& other : results) CHECK(std::memcmp(other.data(), results[0].data(), other.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("sums of 16-bit types are made in f32", "[comm]") {
  std::atomic<int> wrong = 0;
  const auto errors = run_ranks(8, [&](Communicator& ranks) {
    for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::Tree, Algorithm::Doubling, Algorithm::Halving, Algorithm::Direct}) {
      const Request r = request(Collective::AllReduce, 8, 33);
      const auto sum = [&](DType type, double mine) {
        Vector in(33, type), out(33, type);
        for (std::int64_t i = 0; i < 33; ++i) in.set(i, mine);
        ranks.wait(ranks.start(ranks.plan(r, type, algorithm), {type, {in.data()}, out.data()}));
        for (std::int64_t i = 1; i < 33; ++i) {
          if (!(out[i] == out[0])) return std::nan("");
        }
        return out[0];
      };
      if (!(sum(DType::BF16, 1) == 8)) ++wrong;
      // 256 and 1 do not fit into the 8 bits of a bf16 together; 263 rounds once, to 264.
      if (!(sum(DType::BF16, ranks.rank() == 0 ? 256 : 1) == 264)) ++wrong;
      // Sums in between leave the range of an f16.
      if (!(sum(DType::F16, ranks.rank() < 4 ? 60000 : -60000) == 0)) ++wrong;
      if (!(sum(DType::F16, 8000) == 64000)) ++wrong;
    }
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(wrong == 0);
}

TEST_CASE("several operations in flight, waited for in any order, with and without a thread of their own", "[comm]") {
  for (const bool background : {false, true}) {
    std::atomic<std::int64_t> wrong = 0;
    const auto errors = run_ranks(4, [&](Communicator& ranks) {
      if (background) ranks.advance_in_background();
      constexpr std::int64_t kCount = 20000;
      std::vector<Vector> data;
      std::vector<Communicator::Ticket> tickets;
      for (int k = 0; k < 10; ++k) {
        data.emplace_back(kCount, DType::F32);
        for (std::int64_t i = 0; i < kCount; ++i) data.back().set(i, contribution(ranks.rank(), i + k));
      }
      Request r = request(Collective::AllReduce, 4, kCount);
      r.in_place = true;
      const auto plan = ranks.plan(r, DType::F32);
      for (Vector& v : data) tickets.push_back(ranks.start(plan, {DType::F32, {v.data()}, v.data()}));
      for (std::size_t k = tickets.size(); k-- > 0;) {
        ranks.wait(tickets[k]);
        for (std::int64_t i = 0; i < kCount; ++i) {
          const auto e = i + static_cast<std::int64_t>(k);
          if (!(data[k][i] == contribution(0, e) + contribution(1, e) + contribution(2, e) + contribution(3, e))) ++wrong;
        }
      }
      ranks.barrier();
    });
    for (const std::string& error : errors) CHECK(error.empty());
    CHECK(wrong == 0);
  }
}

TEST_CASE("texts and numbers", "[comm]") {
  std::atomic<int> wrong = 0;
  const auto errors = run_ranks(3, [&](Communicator& ranks) {
    for (const std::string& text : {std::string(), std::string("a"), std::string(1001, 'x') + '\0' + "end"}) {
      if (ranks.broadcast(ranks.rank() == 1 ? text : "other", 1) != text) ++wrong;
    }
    double numbers[] = {1.0 * ranks.rank(), 0.5};
    ranks.all_reduce(numbers);
    if (numbers[0] != 3 || numbers[1] != 1.5) ++wrong;
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(wrong == 0);
}

namespace {

/// Both ranks' errors when rank 1 does something else than rank 0; and how long it took.
std::vector<std::string> disagree(const std::function<void(Communicator&)>& zero, const std::function<void(Communicator&)>& one) {
  const auto begin = std::chrono::steady_clock::now();
  const auto errors =
      run_ranks(3, [&](Communicator& ranks) { (ranks.rank() == 1 ? one : zero)(ranks); }, {.choice = {}, .timeout_s = 60, .query_s = 0.1});
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  return errors;
}

void sum_of(Communicator& ranks, std::int64_t count, DType type = DType::F32) {
  Vector data(count, type);
  ranks.all_reduce(Tensor(data.data(), type, {count}), "test");
}

}  // namespace

TEST_CASE("ranks that call different things are named, with what they called", "[comm]") {
  const auto named = [](const std::vector<std::string>& errors, const std::string& a, const std::string& b) {
    for (const std::string& error : errors) {
      INFO(error);
      CHECK_THAT(error, Contains(a) && Contains(b) && Contains("rank 1") && Contains("same operations in the same order"));
    }
  };
  named(disagree([](Communicator& r) { sum_of(r, 100); }, [](Communicator& r) { sum_of(r, 101); }), "all_reduce of 100 f32",
        "all_reduce of 101 f32");
  named(disagree([](Communicator& r) { sum_of(r, 100); }, [](Communicator& r) { sum_of(r, 100, DType::BF16); }), "all_reduce of 100 f32",
        "all_reduce of 100 bf16");
  named(disagree([](Communicator& r) { sum_of(r, 50); },
                 [](Communicator& r) {
                   std::vector<float> data(50);
                   r.broadcast(Tensor(reinterpret_cast<std::byte*>(data.data()), DType::F32, {50}), 1);
                   r.barrier();
                 }),
        "all_reduce of 50 f32", "broadcast of 50 f32");
  named(disagree([](Communicator& r) { sum_of(r, 8), sum_of(r, 9); }, [](Communicator& r) { sum_of(r, 9), sum_of(r, 8); }),
        "all_reduce of 8 f32", "all_reduce of 9 f32");
}

TEST_CASE("a rank that never comes is named after the time allowed", "[comm]") {
  for (const bool background : {false, true}) {
    const auto errors = run_ranks(3,
                                  [&](Communicator& ranks) {
                                    if (background) ranks.advance_in_background();
                                    ranks.set_step(7);
                                    if (ranks.rank() != 2) return sum_of(ranks, 10);
                                    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
                                    sum_of(ranks, 10);
                                  },
                                  {.choice = {}, .timeout_s = 1, .query_s = 0.1});
    for (const std::string& error : errors) {
      INFO(error);
      CHECK_THAT(error,
                 Contains("rank 2 (thread 2 of process") && Contains("all_reduce of 10 f32") && Contains("(test)") && Contains("step 7"));
      CHECK_THAT(error, Contains(background ? "has come to operation 0 only" : "does not answer"));
    }
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
  const auto disagreeing = disagree(
      [](Communicator& r) {
        r.wait(r.start(r.plan(std::vector<Message>{{0, 1, 0}}), {}, "test")), sum_of(r, 1);
      },
      [](Communicator& r) { sum_of(r, 1), sum_of(r, 1); });
  for (const std::string& error : disagreeing) CHECK_THAT(error, Contains("messages, 1 in all") && Contains("all_reduce of 1 f32"));
  for (const std::string& error : run_ranks(2, [](Communicator& r) { static_cast<void>(r.plan(std::vector<Message>{{1, 1, 8}})); })) {
    CHECK_THAT(error, Contains("a message of 8 bytes from rank 1 to rank 1"));
  }
}

TEST_CASE("a rank that fails ends the others with its reason", "[comm]") {
  const auto errors = run_ranks(4,
                                [&](Communicator& ranks) {
                                  sum_of(ranks, 10);
                                  require(ranks.rank() != 3, "no disk is left");
                                  sum_of(ranks, 10);
                                },
                                {.choice = {}, .timeout_s = 60, .query_s = 0.1});
  CHECK(errors[3] == "no disk is left");
  for (int r = 0; r < 3; ++r) CHECK_THAT(errors[static_cast<std::size_t>(r)], Contains("rank 3 (thread 3") && Contains("no disk is left"));
}

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "io/data/prefetch.h"
#include "tests/io/data_helpers.h"

using namespace oxrse;
using namespace oxrse::io;
using Catch::Matchers::Contains;

namespace {

/// Samples that are made of their own number. Counts what is read, and fails at the samples from `bad` to `bad` + 1.
class Counting final : public Dataset {
 public:
  explicit Counting(std::int64_t bad = -10) : bad_(bad) {}
  [[nodiscard]] std::int64_t samples_per_epoch() const override { return 10; }
  [[nodiscard]] std::int64_t tokens() const override { return 31; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return 77; }
  [[nodiscard]] std::string describe() const override { return "numbers"; }
  void read(std::int64_t n, const Row& row) const override {
    ++reads_;
    const std::lock_guard lock(guard_);
    numbers_.push_back(n);
    require(n != bad_ && n != bad_ + 1, "tokens.bin, byte {}: no such token", n);
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
      const auto value = static_cast<std::int32_t>(100 * n + static_cast<std::int64_t>(i));
      row.inputs[i] = value;
      row.targets[i] = value + 1;
      row.positions[i] = static_cast<std::int32_t>(i);
      row.document_start[i] = -value;
    }
  }
  [[nodiscard]] int reads() const { return reads_; }
  /// Of the samples that were read, in that order.
  [[nodiscard]] std::vector<std::int64_t> numbers() const {
    const std::lock_guard lock(guard_);
    return numbers_;
  }

 private:
  std::int64_t bad_;
  mutable std::atomic<int> reads_{0};
  mutable std::mutex guard_;
  mutable std::vector<std::int64_t> numbers_;
};

bool same(const OwnedRow& a, const OwnedRow& b) {
  return a.inputs == b.inputs && a.targets == b.targets && a.positions == b.positions && a.document_start == b.document_start;
}

}  // namespace

TEST_CASE("samples read ahead are the samples, in order and after jumps", "[data]") {
  const Counting plain;
  for (const std::int64_t ahead : {1, 2, 7}) {
    const PrefetchedDataset data(plain, 3, ahead);
    for (std::int64_t n = 0; n < 50; ++n) REQUIRE(same(read_row(data, n, 3), read_row(plain, n, 3)));
    for (const std::int64_t n : {7, 8, 9, 2, 2, 3, 1000, 0, 49}) REQUIRE(same(read_row(data, n, 3), read_row(plain, n, 3)));
    CHECK(data.samples_per_epoch() == 10);
    CHECK(data.tokens() == 31);
    CHECK(data.fingerprint() == 77);
    CHECK(data.describe() == "numbers");
  }
}

TEST_CASE("as many samples as allowed are read ahead while nobody asks, and no more", "[data]") {
  const Counting plain;
  const PrefetchedDataset data(plain, 3, 5);
  read_row(data, 0, 3);
  for (int i = 0; i < 1000 && plain.reads() < 6; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(plain.reads() == 6);  // the one that was asked for and five more
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(plain.reads() == 6);
  for (std::int64_t n = 1; n < 6; ++n) read_row(data, n, 3);
  CHECK(plain.reads() >= 6);
}

TEST_CASE("the share of a rank is read ahead over the samples of others", "[data]") {
  const Counting plain;
  std::vector<std::int64_t> asked;
  {
    const PrefetchedDataset data(plain, 3, 4, {.first = 2, .count = 3, .period = 8});
    for (std::int64_t step = 5; step < 15; ++step) {
      for (std::int64_t n = 8 * step + 2; n < 8 * step + 5; ++n) {
        REQUIRE(read_row(data, n, 3).inputs[0] == 100 * n);
        asked.push_back(n);
      }
    }
    for (int i = 0; i < 1000 && plain.numbers().back() != 130; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const std::int64_t n : {122, 123, 124, 130}) asked.push_back(n);  // ahead
  std::vector<std::int64_t> read = plain.numbers();
  std::erase_if(read, [](std::int64_t n) { return n < 40; });  // begun before anything was asked for
  CHECK(read == asked);

  const PrefetchedDataset data(plain, 3, 4, {.first = 2, .count = 3, .period = 8});
  for (const std::int64_t n : {2, 3, 5, 0, 7, 4, 10, 3}) CHECK(read_row(data, n, 3).inputs[0] == 100 * n);
  CHECK_THROWS_AS(PrefetchedDataset(plain, 3, 4, {.first = 6, .count = 3, .period = 8}), Error);
}

TEST_CASE("an error comes with its sample, and the next samples are there", "[data]") {
  const Counting plain(4);
  const PrefetchedDataset data(plain, 3, 8);
  for (std::int64_t n = 0; n < 4; ++n) read_row(data, n, 3);
  CHECK(message_of([&] { read_row(data, 4, 3); }) == "tokens.bin, byte 4: no such token");
  CHECK(message_of([&] { read_row(data, 4, 3); }) == "tokens.bin, byte 4: no such token");
  CHECK(message_of([&] { read_row(data, 5, 3); }) == "tokens.bin, byte 5: no such token");
  CHECK(read_row(data, 6, 3).inputs[0] == 600);
  CHECK_THAT(message_of([&] { read_row(data, 7, 4); }), Contains("samples of 3"));
}

TEST_CASE("several threads may read at once", "[data]") {
  const Counting plain;
  const PrefetchedDataset data(plain, 3, 4);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t n = t; n < 300; n += 3) wrong += read_row(data, n, 3).inputs[0] == 100 * n ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

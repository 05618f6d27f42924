// Which samples a training reads.

#include <numeric>
#include <set>

#include "io/data/prefetch.h"
#include "tests/catch.h"
#include "tests/comm/ranks.h"
#include "tests/train/fixture.h"

using namespace oxrse;
using namespace oxrse::train;
using namespace oxrse::train::testing;

namespace {

/// Notes the numbers of the samples that are read.
class Noting final : public io::Dataset {
 public:
  explicit Noting(const io::Dataset& data) : data_(data) {}
  [[nodiscard]] std::int64_t samples_per_epoch() const override { return data_.samples_per_epoch(); }
  [[nodiscard]] std::int64_t tokens() const override { return data_.tokens(); }
  [[nodiscard]] std::uint64_t fingerprint() const override { return data_.fingerprint(); }
  [[nodiscard]] std::string describe() const override { return data_.describe(); }
  void read(std::int64_t n, const io::Row& row) const override {
    numbers_.push_back(n);
    data_.read(n, row);
  }
  [[nodiscard]] const std::vector<std::int64_t>& numbers() const { return numbers_; }

 private:
  const io::Dataset& data_;
  mutable std::vector<std::int64_t> numbers_;
};

}  // namespace

TEST_CASE("an epoch takes the same samples however many micro-batches a step has", "[training]") {
  std::vector<std::int64_t> expected(18);
  std::iota(expected.begin(), expected.end(), 0);
  for (const std::int64_t micro_batch : {1, 2, 3, 6}) {
    Config config = tiny_config();
    config.train.micro_batch = micro_batch;
    Fixture fixture(config);
    const Noting data(fixture.data());
    for (std::int64_t step = 0; step < 3; ++step) fixture.training().step(&data, step);
    CHECK(data.numbers() == expected);
  }
}

TEST_CASE("samples read ahead train to the same bits", "[training]") {
  Config config = tiny_config();
  config.data.order = "shuffled";
  Fixture plain(config), prefetched(config);
  {
    const io::PrefetchedDataset data(prefetched.data(), config.train.context, 2 * config.train.micro_batch);
    for (std::int64_t step = 0; step < 4; ++step) {
      const StepReport report = prefetched.training().step(&data, step);
      CHECK(report.loss == plain.step(step).loss);
    }
  }
  CHECK(prefetched.bits() == plain.bits());
}

TEST_CASE("ranks read their shares ahead: together every sample once", "[training]") {
  Config config = tiny_config();
  config.train.global_batch = 12;
  std::vector<std::vector<std::int64_t>> read(3);
  std::vector<std::string> bits(3);
  const auto errors =
      comm::testing::run_ranks(3,
                               [&](comm::Communicator& ranks) {
                                 Fixture fixture(config, 1, &ranks);
                                 const Noting noting(fixture.data());
                                 {
                                   const io::PrefetchedDataset data(noting, config.train.context, 2 * config.train.micro_batch,
                                                                    fixture.training().samples_of_step());
                                   for (std::int64_t step = 0; step < 4; ++step) fixture.training().step(&data, step);
                                 }
                                 read[static_cast<std::size_t>(ranks.rank())] = noting.numbers();
                                 bits[static_cast<std::size_t>(ranks.rank())] = fixture.bits();
                               },
                               {.choice = {.allowed = {}, .keep_tree = true}});
  for (const std::string& error : errors) CHECK(error.empty());
  std::multiset<std::int64_t> all;
  for (const auto& numbers : read) {
    CHECK(std::ranges::is_sorted(numbers));  // no sample is read twice
    for (const std::int64_t n : numbers) {
      if (n < 4 * 12) all.insert(n);  // of the steps that were made
    }
  }
  std::multiset<std::int64_t> expected;
  for (std::int64_t n = 0; n < 4 * 12; ++n) expected.insert(n);
  CHECK(all == expected);

  Fixture alone(config);
  for (std::int64_t step = 0; step < 4; ++step) alone.step(step);
  for (const std::string& b : bits) CHECK((b == alone.bits()));
}

// Which samples are read when, by whom: stopping, resuming, ranks.

#include <algorithm>
#include <numeric>

#include "io/data/rank_slice.h"
#include "tests/io/data_helpers.h"

using namespace oxrse;
using namespace oxrse::io;

namespace {

constexpr std::int64_t kT = 5;

/// Three shards of unequal size, 401 tokens that count up: 80 samples of 5.
DataConfig three_shards(const TemporaryDirectory& directory, const char* order) {
  std::filesystem::create_directory(directory / "shards");
  write_llmc(directory / "shards/a.bin", counting(0, 37));
  write_llmc(directory / "shards/b.bin", counting(37, 203));
  write_llmc(directory / "shards/c.bin", counting(240, 161));
  DataConfig config = config_for(directory / "shards", directory);
  config.order = order;
  return config;
}

std::unique_ptr<Dataset> open(const DataConfig& config) {
  return std::move(open_training_data(config, nullptr, {.context = kT, .seed = 3}).train);
}

/// The first tokens of samples [first, first + count).
std::vector<std::int32_t> starts(const Dataset& data, const SampleRange& range) {
  std::vector<std::int32_t> result;
  for (std::int64_t n = range.first; n < range.first + range.count; ++n) result.push_back(read_row(data, n, kT).inputs[0]);
  return result;
}

void append(std::vector<std::int32_t>& all, const std::vector<std::int32_t>& more) { all.insert(all.end(), more.begin(), more.end()); }

}  // namespace

TEST_CASE("the slices of ranks are together the whole, each sample once", "[data]") {
  for (std::int64_t ranks = 1; ranks <= 8; ++ranks) {
    for (std::int64_t count = 0; count <= 20; ++count) {
      std::int64_t next = 100;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const SampleRange slice = rank_slice({.first = 100, .count = count}, rank, ranks);
        REQUIRE(slice.first == next);
        REQUIRE((slice.count == count / ranks || slice.count == count / ranks + 1));
        next += slice.count;
      }
      REQUIRE(next == 100 + count);
    }
  }
}

TEST_CASE("five evaluation samples on four ranks: each once, none past the end", "[data]") {
  TemporaryDirectory directory;
  write_llmc(directory / "v.bin", counting(0, 26));
  const auto data = open(config_for(directory / "v.bin", directory));
  REQUIRE(data->samples_per_epoch() == 5);
  for (std::int64_t ranks = 1; ranks <= 7; ++ranks) {
    std::vector<std::int32_t> all;
    for (std::int64_t rank = 0; rank < ranks; ++rank) append(all, starts(*data, rank_slice({.first = 0, .count = 5}, rank, ranks)));
    CHECK(all == std::vector<std::int32_t>{0, 5, 10, 15, 20});
  }
}

TEST_CASE("100 tokens, batch 2, context 8, 4 ranks: all samples are used and their count is told", "[data]") {
  TemporaryDirectory directory;
  write_llmc(directory / "t.bin", counting(0, 100));
  const auto data = open_training_data(config_for(directory / "t.bin", directory), nullptr, {.context = 8}).train;
  REQUIRE(data->samples_per_epoch() == 12);
  CHECK_THAT(data->describe(), Catch::Matchers::Contains("100 tokens, 12 samples of 8 tokens an epoch, 4 tokens left over"));
  // Steps of 4 x 2 samples: three of them take two epochs, every sample twice.
  std::vector<int> taken(12, 0);
  for (std::int64_t step = 0; step < 3; ++step) {
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const SampleRange slice = rank_slice({.first = 8 * step, .count = 8}, rank, 4);
      CHECK(slice.count == 2);
      for (std::int64_t n = slice.first; n < slice.first + 2; ++n) ++taken[static_cast<std::size_t>(read_row(*data, n, 8).inputs[0] / 8)];
    }
  }
  CHECK(taken == std::vector<int>(12, 2));
}

TEST_CASE("stopped anywhere and opened again, once or twice, the samples go on as if never stopped", "[data][D5]") {
  const char* order = GENERATE("sequential", "shuffled");
  TemporaryDirectory directory;
  const DataConfig config = three_shards(directory, order);
  const auto data = open(config);
  REQUIRE(data->samples_per_epoch() == 80);
  const auto uninterrupted = starts(*data, {.first = 0, .count = 240});
  std::vector<std::int32_t> second_epoch(uninterrupted.begin() + 80, uninterrupted.begin() + 160);
  std::sort(second_epoch.begin(), second_epoch.end());
  for (std::int32_t i = 0; i < 80; ++i) REQUIRE(second_epoch[static_cast<std::size_t>(i)] == kT * i);
  for (const std::int64_t stop : {1, 7, 20, 47, 79, 80, 81, 120, 200}) {  // in the first, second and third shard and epoch
    std::vector<std::int32_t> all = starts(*data, {.first = 0, .count = stop});
    append(all, starts(*open(config), {.first = stop, .count = 13}));
    append(all, starts(*open(config), {.first = stop + 13, .count = 240 - stop - 13}));
    CHECK(all == uninterrupted);
  }
}

TEST_CASE("stopped on some ranks and resumed on others: the epoch is exact", "[data][D6]") {
  const char* order = GENERATE("sequential", "shuffled");
  TemporaryDirectory directory;
  const DataConfig config = three_shards(directory, order);
  constexpr std::int64_t kGlobalBatch = 12;
  const auto uninterrupted = starts(*open(config), {.first = 0, .count = 160});
  for (std::int64_t before = 1; before <= 4; ++before) {
    for (std::int64_t after = 1; after <= 4; ++after) {
      std::vector<std::int32_t> all;
      for (std::int64_t first = 0; first < 160; first += kGlobalBatch) {
        const std::int64_t ranks = first < 60 ? before : after;
        for (std::int64_t rank = 0; rank < ranks; ++rank)
          append(all, starts(*open(config), rank_slice({first, kGlobalBatch}, rank, ranks)));
      }
      all.resize(160);
      REQUIRE(all == uninterrupted);
    }
  }
  auto epoch = std::vector<std::int32_t>(uninterrupted.begin(), uninterrupted.begin() + 80);
  std::sort(epoch.begin(), epoch.end());
  for (std::int32_t i = 0; i < 80; ++i) CHECK(epoch[static_cast<std::size_t>(i)] == kT * i);
}

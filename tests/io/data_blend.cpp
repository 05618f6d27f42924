#include <cmath>
#include <numeric>

#include "io/data/blend.h"
#include "tests/io/data_helpers.h"

using namespace oxrse;
using namespace oxrse::io;
using Catch::Matchers::Contains;

namespace {

Json blend_of(const TemporaryDirectory& directory, const std::vector<double>& weights) {
  Json list = Json::array();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::filesystem::path file = directory / fmt::format("{}.bin", i);
    if (!std::filesystem::exists(file)) write_llmc(file, counting(static_cast<int>(1000 * i), 31 + static_cast<int>(10 * i)));
    list.push_back({{"source", file.string()}, {"weight", weights[i]}});
  }
  return list;
}

}  // namespace

TEST_CASE("a blend keeps its ratios at every moment and each part its own order", "[data]") {
  TemporaryDirectory directory;
  for (const std::vector<double>& weights : {std::vector<double>{1, 1}, {0.7, 0.2, 0.1}, {5, 1, 3, 0.001, 2}, {1e-6, 1}}) {
    DataConfig config = config_for(directory / "x", directory);
    config.train = blend_of(directory, weights);
    const auto data = open_training_data(config, nullptr, {.context = 5}).train;
    const auto& blend = dynamic_cast<const BlendDataset&>(*data);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<std::int64_t> taken(weights.size(), 0);
    for (std::int64_t n = 0; n < 20000; ++n) {
      const BlendDataset::Place place = blend.place_of(n);
      REQUIRE(place.sample == taken[place.part]++);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        REQUIRE(std::abs(static_cast<double>(taken[i]) - static_cast<double>(n + 1) * weights[i] / sum) < 3);
      }
    }
    for (std::int64_t n = 0; n < 100; ++n) {
      const BlendDataset::Place place = blend.place_of(n);
      const auto own = static_cast<std::int64_t>(6 + 2 * place.part);  // samples of 5 in 31 + 10 * part tokens
      CHECK(read_row(*data, n, 5).inputs[0] == static_cast<std::int64_t>(1000 * place.part) + place.sample % own * 5);
    }
  }
}

TEST_CASE("a blend of one half far into training", "[data]") {
  TemporaryDirectory directory;
  DataConfig config = config_for(directory / "x", directory);
  config.train = blend_of(directory, {1, 3});
  const auto data = open_training_data(config, nullptr, {.context = 5}).train;
  const auto& blend = dynamic_cast<const BlendDataset&>(*data);
  const std::int64_t far = std::int64_t{1} << 45U;
  CHECK(blend.place_of(far).part + blend.place_of(far + 1).part + blend.place_of(far + 2).part + blend.place_of(far + 3).part == 3);
  CHECK(data->samples_per_epoch() == 6 + 8);
  CHECK(data->tokens() == 31 + 41);
  CHECK_THAT(data->describe(), Contains("25% ") && Contains("75% "));
}

TEST_CASE("weights that make no sense are refused", "[data]") {
  TemporaryDirectory directory;
  const auto refusal = [&](const Json& train) {
    DataConfig config = config_for(directory / "x", directory);
    config.train = train;
    return message_of([&] { open_training_data(config, nullptr, {.context = 5}); });
  };
  CHECK_THAT(refusal(blend_of(directory, {1, 0})), Contains("data.train[1].weight is 0"));
  CHECK_THAT(refusal(blend_of(directory, {-1, 1})), Contains("data.train[0].weight is -1"));
  CHECK_THAT(refusal(blend_of(directory, {1e308, 1e308})), Contains("too far from the others"));
  CHECK_THAT(refusal(blend_of(directory, {1e20, 1e-20})), Contains("too far from the others"));
  CHECK_THAT(refusal(Json::array({Json{{"source", "a"}}})), Contains("data.train[0] is"));
  CHECK_THAT(refusal(Json::array()), Contains("data.train is"));
  CHECK_THAT(refusal(3), Contains("data.train is 3"));
}

TEST_CASE("the fingerprint of a blend knows parts and weights", "[data]") {
  TemporaryDirectory directory;
  const auto fingerprint = [&](const std::vector<double>& weights) {
    DataConfig config = config_for(directory / "x", directory);
    config.train = blend_of(directory, weights);
    return open_training_data(config, nullptr, {.context = 5}).train->fingerprint();
  };
  CHECK(fingerprint({1, 2}) == fingerprint({2, 4}));
  CHECK(fingerprint({1, 2}) != fingerprint({2, 1}));
  CHECK(fingerprint({1, 2}) != fingerprint({1, 2, 1}));
}

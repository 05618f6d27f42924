#include "engine/train/sampling.h"

#include <cmath>
#include <vector>

#include "tests/catch.h"
#include "tests/nn/tiny.h"

using namespace oxrse;
using oxrse::train::draw;
using oxrse::train::Generator;
using oxrse::train::Sampling;

namespace {

/// Shares of each token in many draws.
std::vector<double> shares(const std::vector<double>& logits, Sampling sampling) {
  constexpr int kDraws = 20000;
  std::vector<double> share(logits.size());
  for (int i = 0; i < kDraws; ++i) share[static_cast<std::size_t>(draw(logits, sampling, static_cast<std::uint64_t>(i)))] += 1.0 / kDraws;
  return share;
}

}  // namespace

TEST_CASE("draws follow the softmax", "[sampling]") {
  const std::vector<double> logits = {std::log(0.5), std::log(0.2), std::log(0.3)};
  const auto plain = shares(logits, {});
  CHECK(std::abs(plain[0] - 0.5) <= 0.015);
  CHECK(std::abs(plain[1] - 0.2) <= 0.015);
  CHECK(std::abs(plain[2] - 0.3) <= 0.015);
  const auto cold = shares(logits, {.temperature = 0.5});  // squares: 25 : 4 : 9
  CHECK(std::abs(cold[0] - 25.0 / 38) <= 0.015);
  CHECK(shares(logits, {.temperature = 0})[0] == Approx(1));
}

TEST_CASE("top-k and top-p cut the tail", "[sampling]") {
  const std::vector<double> logits = {std::log(0.5), std::log(0.2), std::log(0.3)};
  const auto two = shares(logits, {.top_k = 2});
  CHECK(two[1] == 0);
  CHECK(std::abs(two[0] - 0.5 / 0.8) <= 0.015);
  CHECK(shares(logits, {.top_k = 1})[0] == Approx(1));
  CHECK(shares(logits, {.top_p = 0.5})[0] == Approx(1));
  CHECK(shares(logits, {.top_p = 0.51})[1] == 0);
  CHECK(shares(logits, {.top_p = 0.51})[2] > 0.3);
  CHECK(shares(logits, {.top_p = 0.81})[1] > 0.15);
}

TEST_CASE("rows that pad the vocabulary are never drawn", "[sampling]") {
  const std::vector<double> logits = {1, 2, 9, 9};
  const auto two = shares(logits, {.vocab = 2});
  CHECK(two[2] + two[3] == 0);
  CHECK(std::abs(two[1] - std::exp(2) / (std::exp(1) + std::exp(2))) <= 0.015);
  CHECK(draw(logits, {.temperature = 0, .vocab = 2}, 0) == 1);
  CHECK(draw(logits, {.temperature = 0, .vocab = 50}, 0) == 2);
}

TEST_CASE("extreme logits draw the right token", "[sampling]") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(draw(std::vector<double>{-infinity, 1e4, -1e4}, {}, 0) == 1);
  CHECK(draw(std::vector<double>{2, 2, 2}, {.temperature = 0}, 0) == 0);
}

TEST_CASE("logits without probabilities are an error that names the token", "[sampling]") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const double temperature : {0.0, 1.0}) {
    const Sampling sampling{.temperature = temperature};
    for (const double bad : {nan, -nan, infinity}) {
      CHECK_THROWS_WITH(draw(std::vector<double>{1, bad, 2}, sampling, 0), Catch::Matchers::Contains("the logit of token 1 is"));
    }
    CHECK_THROWS_WITH(draw(std::vector<double>{-infinity, -infinity}, sampling, 0), Catch::Matchers::Contains("all logits are -inf"));
    CHECK(draw(std::vector<double>{-infinity, 3, -infinity}, sampling, 0) == 1);
  }
}

TEST_CASE("options out of range are named", "[sampling]") {
  CHECK_THROWS_WITH((Sampling{.temperature = -1}).validate(), Catch::Matchers::Contains("--temperature"));
  CHECK_THROWS_WITH((Sampling{.temperature = std::nan("")}).validate(), Catch::Matchers::Contains("--temperature"));
  CHECK_THROWS_WITH((Sampling{.top_k = -1}).validate(), Catch::Matchers::Contains("--top-k"));
  CHECK_THROWS_WITH((Sampling{.top_p = 0}).validate(), Catch::Matchers::Contains("--top-p"));
}

TEST_CASE("generation goes on past the context, the same every time", "[sampling]") {
  nn::testing::Tiny tiny({.model = GENERATE(nn::testing::gpt2(), nn::testing::qwen3())});
  Generator generator(tiny.context(), tiny.store(), tiny.model());
  const auto run = [&](std::vector<std::int32_t> prompt, std::int64_t count, std::uint64_t seed) {
    std::vector<std::int32_t> tokens;
    generator.generate(prompt, count, {.seed = seed}, [&](std::int32_t t) {
      tokens.push_back(t);
      return true;
    });
    return tokens;
  };
  const auto tokens = run({1, 2, 3}, 40, 4);
  CHECK(tokens.size() == 40);
  CHECK(tokens == run({1, 2, 3}, 40, 4));
  CHECK(tokens != run({1, 2, 3}, 40, 5));
  CHECK(run(std::vector<std::int32_t>(30, 2), 3, 1).size() == 3);  // a prompt longer than the context: its end counts
  CHECK_THROWS_WITH(run({}, 3, 1), Catch::Matchers::Contains("nothing to continue"));
}

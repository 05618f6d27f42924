#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "tests/catch.h"
#include "tests/io/tokenizer_helpers.h"

using namespace oxrse;
using namespace oxrse::io;

namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;
using Tokens = std::vector<std::int32_t>;

Tokens joined(const Tokens& tokens, const Pair& pair, std::int32_t result) {
  Tokens out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool found = i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
    out.push_back(found ? result : tokens[i]);
    i += found ? 1 : 0;
  }
  return out;
}

/// The definition: count all pairs anew before every merge.
std::vector<Pair> merges_slowly(const std::map<std::string, std::int64_t>& words, int most) {
  std::vector<std::pair<Tokens, std::int64_t>> tokenised;
  for (const auto& [word, count] : words) {
    Tokens tokens;
    for (const char c : word) tokens.push_back(static_cast<std::uint8_t>(c));
    tokenised.emplace_back(tokens, count);
  }
  std::vector<std::string> bytes;
  for (int i = 0; i < 256; ++i) bytes.emplace_back(1, static_cast<char>(i));
  std::vector<Pair> merges;
  while (static_cast<int>(bytes.size()) < most) {
    std::map<Pair, std::int64_t> counts;
    for (const auto& [tokens, count] : tokenised) {
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) counts[{tokens[i], tokens[i + 1]}] += count;
    }
    Pair best;
    std::int64_t most_often = 1;
    for (const auto& [pair, count] : counts) {
      if (count > most_often) {
        best = pair;
        most_often = count;
      }
    }
    if (most_often < 2) break;
    merges.push_back(best);
    const std::string text = bytes[best.first] + bytes[best.second];
    auto known = std::find(bytes.begin(), bytes.end(), text);
    if (known == bytes.end()) known = bytes.insert(bytes.end(), text);
    for (auto& [tokens, count] : tokenised) tokens = joined(tokens, best, static_cast<std::int32_t>(known - bytes.begin()));
  }
  return merges;
}

}  // namespace

TEST_CASE("training takes the most frequent pair each time", "[tokenizer]") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::map<std::string, std::int64_t> words;
    for (int i = 0; i < 12; ++i) {
      std::string word(1 + random() % 14, 'a');
      for (char& c : word) c = static_cast<char>('a' + random() % (round % 2 == 0 ? 2 : 4));
      words[word] += 1 + random() % 5;
    }
    WordCounts counts;
    for (const auto& [word, count] : words) counts.add(word, count);
    const BpeParts parts = train_bpe(counts, 256 + 41, "");
    REQUIRE(parts.merges == merges_slowly(words, 256 + 40));
    REQUIRE(parts.tokens.back() == "<|endoftext|>");
  }
}

TEST_CASE("the vocabulary has the size asked for, when the text allows it", "[tokenizer]") {
  CHECK(train_on(kSmallText, 257).merges.empty());
  CHECK(train_on(kSmallText, 280).tokens.size() == 280);
  CHECK(train_on(kSmallText, 5000).tokens.size() == 307);
  CHECK(train_on("", 300).tokens.size() == 257);
  CHECK_THROWS_WITH(train_on(kSmallText, 256), Catch::Matchers::Contains("a vocabulary of 256 tokens"));
}

TEST_CASE("word counts add up", "[tokenizer]") {
  WordCounts a, b;
  a.add("x");
  a.add("y", 3);
  b.add("y", 4);
  b.add("z");
  a.add(b);
  CHECK(a.words() == WordCounts::Map{{"x", 1}, {"y", 7}, {"z", 1}});
}

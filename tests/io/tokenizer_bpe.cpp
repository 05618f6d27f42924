#include <algorithm>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "io/tokenizer/merges.h"
#include "io/tokenizer/tokenizer.h"
#include "tests/catch.h"
#include "tests/io/tokenizer_helpers.h"

using namespace oxrse;
using namespace oxrse::io;

namespace {

using Tokens = std::vector<std::int32_t>;

/// Of the processor, so that what else the machine does has no part in it.
double seconds(const std::function<void()>& action) {
  const std::clock_t begin = std::clock();
  action();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// The definition, word for word: look for the lowest rank, join its leftmost pair, begin again.
Tokens merged_slowly(const MergeTable& merges, Tokens tokens) {
  while (true) {
    const Merge* best = nullptr;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const Merge* merge = merges.find(tokens[i], tokens[i + 1]);
      if (merge == nullptr || (best != nullptr && merge->rank >= best->rank)) continue;
      best = merge;
      place = i;
    }
    if (best == nullptr) return tokens;
    tokens[place] = best->result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

}  // namespace

// The ids are those that the Python package tokenizers 0.23.3 gives for the same tokenizer.json.
TEST_CASE("a trained BPE encodes as the reference does", "[tokenizer]") {
  const BpeTokenizer tokenizer(train_on(kSmallText, 330));
  REQUIRE(tokenizer.vocab_size() == 307);
  struct Case {
    std::string text;
    Tokens tokens;
  };
  const std::vector<Case> cases = {
      {"And the heaven was light", {65, 259, 258, 32, 104, 263, 118, 101, 110, 274, 305}},
      {"the <|endoft", {256, 101, 32, 60, 124, 101, 259, 111, 102, 116}},
      {"gr\xc3\xbc\xc3\x9f \xc2\xbd \xc5\xbf \xe1\xa0\x8e \xf0\x9f\x98\x80\xf0\x9f\x98\x81",
       {103, 114, 273, 195, 159, 32, 194, 189, 32, 197, 191, 32, 225, 160, 142, 32, 298, 240, 159, 152, 129}},
      {"can't CAN'T 20242025\r\n\r\n  the",
       {99, 97, 110, 269, 32, 67, 65, 78, 39, 84, 32, 286, 52, 50, 48, 50, 53, 13, 10, 13, 10, 32, 258}},
      {"aaaaaaaaaaa\tb\xc2\xa0"
       "c",
       {97, 97, 97, 97, 97, 97, 97, 97, 97, 97, 97, 9, 98, 194, 160, 99}},
  };
  for (int round = 0; round < 2; ++round) {  // the second time from the word cache
    for (const Case& c : cases) CHECK(tokenizer.encode(c.text) == c.tokens);
  }
}

TEST_CASE("special tokens in text are ordinary text unless they are allowed", "[tokenizer]") {
  const BpeTokenizer tokenizer(train_on(kSmallText, 330));
  const std::string text = "a<|endoftext|>b<|endoftext|>";
  const Tokens ordinary = tokenizer.encode(text);
  CHECK(std::count(ordinary.begin(), ordinary.end(), 306) == 0);
  CHECK(tokenizer.decode(ordinary) == text);
  CHECK(tokenizer.encode(text, std::vector<std::string>{"<|endoftext|>"}) == Tokens{97, 306, 98, 306});
  CHECK(tokenizer.encode(text, std::vector<std::string>{"all"}) == Tokens{97, 306, 98, 306});
  CHECK(tokenizer.encode(text, std::vector<std::string>{}) == ordinary);
  CHECK_THROWS_WITH(tokenizer.encode(text, std::vector<std::string>{"<|im_end|>"}), Catch::Matchers::Contains("<|im_end|>"));
  CHECK(tokenizer.end_of_text() == 306);
  CHECK(tokenizer.decode(Tokens{97, 306}) == "a<|endoftext|>");
}

TEST_CASE("any bytes survive encoding and decoding", "[tokenizer]") {
  const BpeTokenizer trained(train_on(kSmallText, 330));
  const auto bytes = load_tokenizer("bytes");
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    std::string text(random() % 97, '\0');
    for (char& c : text) c = static_cast<char>(random() % (round % 2 == 0 ? 256 : 128));
    if (round % 5 == 0) text += "\xc3\xbc\xc2\xbd\xc5\xbf\xe1\xa0\x8e\xf0\x9f\x98\x80";
    REQUIRE(trained.decode(trained.encode(text)) == text);
    REQUIRE(bytes->decode(bytes->encode(text)) == text);
    REQUIRE(bytes->encode(text).size() == text.size());
  }
}

TEST_CASE("a long piece takes little time", "[tokenizer]") {
  const std::string text = std::string(kSmallText) + " aaaaaaaaaaaaaaaa aaaaaaaa aaaa aa ________ ____ __";
  const BpeTokenizer tokenizer(train_on(text, 400));
  for (const char c : {'a', '_', ' ', '\n'}) {
    const std::string piece(1 << 20U, c);
    Tokens tokens;
    CHECK(seconds([&] { tokens = tokenizer.encode(piece); }) < 5);  // a tenth of a second; merging in quadratic time takes minutes
    CHECK(tokenizer.decode(tokens) == piece);
    if (c == 'a') CHECK(tokens.size() == (1 << 20U) / 8);
  }
}

TEST_CASE("the heap merges in the order of the definition", "[tokenizer]") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    MergeTable merges;
    const int count = 1 + static_cast<int>(random() % 9);
    for (int rank = 0; rank < count; ++rank) {  // tokens 0..3 are letters, 4 and up are joined, each from earlier ones
      const auto below = static_cast<unsigned>(4 + rank);
      merges(static_cast<std::int32_t>(random() % below), static_cast<std::int32_t>(random() % below)) = {rank, 4 + rank};
    }
    Tokens tokens(random() % 40);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 3);
    Tokens merged = tokens;
    apply_merges(merges, merged);
    REQUIRE(merged == merged_slowly(merges, tokens));
  }
}

TEST_CASE("streaming gives out whole characters", "[tokenizer]") {
  const auto bytes = load_tokenizer("bytes");
  StreamDecoder stream(*bytes);
  std::vector<std::string> parts;
  const std::string text = "a\xf0\x9f\x98\x80\xc3\xbc\xff\xe2\x82!\xe2";
  for (const std::int32_t token : bytes->encode(text)) parts.push_back(stream.push(token));
  CHECK(parts == std::vector<std::string>{"a", "", "", "", "\xf0\x9f\x98\x80", "", "\xc3\xbc", "\xff", "", "", "\xe2\x82!", ""});
  CHECK(stream.finish() == "\xe2");
  CHECK(stream.finish().empty());
}

TEST_CASE("tokens outside the vocabulary are named", "[tokenizer]") {
  const auto bytes = load_tokenizer("bytes");
  CHECK(bytes->vocab_size() == 256);
  CHECK_FALSE(bytes->end_of_text().has_value());
  CHECK_THROWS_WITH(bytes->decode(Tokens{256}), Catch::Matchers::Contains("token 256"));
  CHECK_THROWS_WITH(bytes->decode(Tokens{-1}), Catch::Matchers::Contains("token -1"));
}

#include <random>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "io/tokenizer/splitter.h"
#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::io;

namespace {

using Pieces = std::vector<std::string>;
struct Case {
  std::string text;
  Pieces pieces;
};

Pieces pieces_of(std::string_view pattern, std::string_view text) {
  Pieces pieces;
  Splitter(std::string(pattern)).split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::string joined(const Pieces& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

/// Letters, signs, white space and broken UTF-8 that patterns treat differently, in random order.
std::string random_text(std::mt19937& random, int parts) {
  static const std::vector<std::string> kParts = {"a",
                                                  "Lord",
                                                  " ",
                                                  "\n",
                                                  "\r\n",
                                                  "  ",
                                                  "\t",
                                                  "'s",
                                                  "'T",
                                                  "1",
                                                  "12345",
                                                  "!",
                                                  "--",
                                                  "\xc3\xbc",
                                                  "\xc5\xbf",
                                                  "\xe1\xa0\x8e",
                                                  "\xf0\x9f\x98\x80",
                                                  "\xc2\xa0",
                                                  "\xe2\x80\xa8",
                                                  "\xff",
                                                  "\xe2\x80",
                                                  "\n\n",
                                                  " x",
                                                  "\x80"};
  std::string text;
  for (int i = 0; i < parts; ++i) text += kParts[random() % kParts.size()];
  return text;
}

}  // namespace

// The pieces are those that the pre-tokenizer Split(pattern, "isolated") of the Python package tokenizers 0.23.3 gives.
TEST_CASE("GPT-2's pattern splits as its reference does", "[tokenizer]") {
  const std::vector<Case> cases = {
      {"I'll say: it's DON'T-care'S 'tis", {"I", "'ll", " say", ":", " it", "'s", " DON", "'", "T", "-", "care", "'", "S", " '", "tis"}},
      {"x'\xc5\xbf y'\xc5\xbft", {"x", "'", "\xc5\xbf", " y", "'", "\xc5\xbft"}},
      {"gr\xc3\xbc\xc3\x9f"
       "e \xc2\xbd\xc2\xb2 1234567 \xe2\x85\xa7\xd9\xa1\xd9\xa2\xd9\xa3\xd9\xa4",
       {"gr\xc3\xbc\xc3\x9f"
        "e",
        " \xc2\xbd\xc2\xb2", " 1234567", " \xe2\x85\xa7\xd9\xa1\xd9\xa2\xd9\xa3\xd9\xa4"}},
      {"a\xe1\xa0\x8e"
       "b \xe1\xa0\x8e c",
       {"a", "\xe1\xa0\x8e", "b", " \xe1\xa0\x8e", " c"}},
      {"tabs\t\tand  spaces   \n\n  end \r\n\r\n", {"tabs", "\t", "\t", "and", " ", " spaces", "   \n\n ", " end", " \r\n\r\n"}},
      {"\xf0\x9f\x98\x80\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa e\xcc\x81 \xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82 ok",
       {"\xf0\x9f\x98\x80\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", " e", "\xcc\x81", " \xe4\xb8\xad\xe6\x96\x87", "\xe3\x80\x82", " ok"}},
      {"a\xc2\xa0"
       "b\xe2\x80\x83"
       "c\xe3\x80\x80\xe2\x80\xa8"
       "d\xc2\x85"
       "e",
       {"a", "\xc2\xa0", "b", "\xe2\x80\x83", "c", "\xe3\x80\x80", "\xe2\x80\xa8", "d", "\xc2\x85", "e"}},
      {"...!?\n\n--\r\nx", {"...!?", "\n", "\n", "--", "\r", "\n", "x"}},
      {"  ", {"  "}},
      {" \n", {" \n"}},
  };
  for (const Case& c : cases) CHECK(pieces_of(kGpt2Pattern, c.text) == c.pieces);
}

TEST_CASE("Llama 3's pattern splits as its reference does", "[tokenizer]") {
  const std::vector<Case> cases = {
      {"I'll say: it's DON'T-care'S 'tis", {"I", "'ll", " say", ":", " it", "'s", " DON", "'T", "-care", "'S", " '", "tis"}},
      {"x'\xc5\xbf y'\xc5\xbft", {"x", "'\xc5\xbf", " y", "'\xc5\xbf", "t"}},
      {"gr\xc3\xbc\xc3\x9f"
       "e \xc2\xbd\xc2\xb2 1234567 \xe2\x85\xa7\xd9\xa1\xd9\xa2\xd9\xa3\xd9\xa4",
       {"gr\xc3\xbc\xc3\x9f"
        "e",
        " ", "\xc2\xbd\xc2\xb2", " ", "123", "456", "7", " ", "\xe2\x85\xa7\xd9\xa1\xd9\xa2", "\xd9\xa3\xd9\xa4"}},
      {"a\xe1\xa0\x8e"
       "b \xe1\xa0\x8e c",
       {"a",
        "\xe1\xa0\x8e"
        "b",
        " \xe1\xa0\x8e", " c"}},
      {"tabs\t\tand  spaces   \n\n  end \r\n\r\n", {"tabs", "\t", "\tand", " ", " spaces", "   \n\n", " ", " end", " \r\n\r\n"}},
      {"\xf0\x9f\x98\x80\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa e\xcc\x81 \xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82 ok",
       {"\xf0\x9f\x98\x80\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", " e", "\xcc\x81", " \xe4\xb8\xad\xe6\x96\x87", "\xe3\x80\x82", " ok"}},
      {"a\xc2\xa0"
       "b\xe2\x80\x83"
       "c\xe3\x80\x80\xe2\x80\xa8"
       "d\xc2\x85"
       "e",
       {"a",
        "\xc2\xa0"
        "b",
        "\xe2\x80\x83"
        "c",
        "\xe3\x80\x80",
        "\xe2\x80\xa8"
        "d",
        "\xc2\x85"
        "e"}},
      {"...!?\n\n--\r\nx", {"...!?\n\n", "--\r\n", "x"}},
      {"  ", {"  "}},
      {" \n", {" \n"}},
  };
  for (const Case& c : cases) CHECK(pieces_of(kLlama3Pattern, c.text) == c.pieces);
}

TEST_CASE("bytes that are not UTF-8 are pieces of their own", "[tokenizer]") {
  CHECK(pieces_of(kGpt2Pattern,
                  "ab\xff\xfe"
                  "cd \xe2\x80 e") == Pieces{"ab", "\xff\xfe", "cd", " ", "\xe2\x80", " e"});
  CHECK(pieces_of(kGpt2Pattern, "\xed\xa0\x80") == Pieces{"\xed\xa0\x80"});  // a surrogate
  CHECK(pieces_of("", "a b\xff") == Pieces{"a b", "\xff"});
  CHECK(pieces_of(kGpt2Pattern, "").empty());
}

TEST_CASE("what a pattern leaves out is a piece, too", "[tokenizer]") {
  CHECK(pieces_of("b+", "aabbcb") == Pieces{"aa", "bb", "c", "b"});
  CHECK(pieces_of("x*", "aaxx") == Pieces{"aa", "xx"});
  CHECK_THROWS_WITH(Splitter("a(b"), Catch::Matchers::Contains("the split pattern a(b is not understood"));
  CHECK_THROWS_WITH(Splitter("[\\S]"), Catch::Matchers::Contains("inside [ ]"));
}

TEST_CASE("pieces joined are the text, and stay the same when it is cut in two", "[tokenizer]") {
  std::mt19937 random(7);
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern}) {
    const Splitter splitter{std::string(pattern)};
    int cuts = 0;
    for (int round = 0; round < 300; ++round) {
      const std::string text = random_text(random, 40);
      const Pieces whole = pieces_of(pattern, text);
      REQUIRE(joined(whole) == text);
      for (std::size_t i = splitter.cut(text, 0); i < text.size(); i = splitter.cut(text, i + 1)) {
        Pieces parts = pieces_of(pattern, text.substr(0, i));
        for (const std::string& piece : pieces_of(pattern, text.substr(i))) parts.push_back(piece);
        REQUIRE(parts == whole);
        ++cuts;
      }
    }
    CHECK(cuts > 300);
  }
  CHECK(Splitter("b+").cut("aa bb", 0) == 5);
}

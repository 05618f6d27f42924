#include "benchmarks/data.h"

#include "io/data/train_tokenizer.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"

using namespace oxrse;
using namespace oxrse::bench;

TEST_CASE("making tokens of text is measured on all of it, and leaves nothing behind") {
  const io::TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "Line " + std::to_string(i * 7919 % 20000) + " of a text, and some words to go with it.\n";
  io::put(directory / "text.txt", text);
  std::filesystem::create_directory(directory / "out");
  const DataResult result = run_data({directory / "text.txt"}, 400, 300'000, directory / "out", 2);
  CHECK(result.bytes == std::ssize(text));
  CHECK(result.vocab == 400);
  CHECK(result.turns == 2);
  for (const Spent& spent : {result.train, result.encode, result.prepare}) {
    CHECK(spent.wall > 0);
    CHECK(spent.cpu > 0);
  }
  CHECK(result.train_peak_bytes > 1'000'000);
  CHECK(std::filesystem::is_empty(directory / "out"));

  // What was encoded is a part of the text, and has as many tokens as it has by itself.
  REQUIRE(result.encode_bytes >= 300'000);
  REQUIRE(result.encode_bytes <= std::ssize(text));
  const auto tokenizer = io::train_tokenizer({directory / "text.txt"}, 400, {}, {});
  CHECK(result.encode_tokens == std::ssize(tokenizer->encode(text.substr(0, static_cast<std::size_t>(result.encode_bytes)))));
  CHECK_THAT(describe(result), Catch::Matchers::Contains("400 tokens") && Catch::Matchers::Contains("MB/processor s"));
  CHECK(to_json(result).at("encode_tokens") == result.encode_tokens);
}

TEST_CASE("a benchmark of text that is none is refused") {
  const io::TemporaryDirectory directory;
  io::put(directory / "empty.txt", "");
  CHECK_THROWS_AS(run_data({directory / "empty.txt"}, 400, 1000, directory.path(), 1), Error);
}

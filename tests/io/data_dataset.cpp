#include <numeric>
#include <set>

#include "tests/io/data_helpers.h"

using namespace oxrse;
using namespace oxrse::io;
using Catch::Matchers::Contains;

TEST_CASE("samples of a token shard start T apart and targets are the next inputs", "[data]") {
  TemporaryDirectory directory;
  write_llmc(directory / "tokens.bin", counting(0, 100));
  const auto data = open_training_data(config_for(directory / "tokens.bin", directory), nullptr, {.context = 8, .seed = 1, .vocab = 100});
  REQUIRE(data.train->samples_per_epoch() == 12);  // (100 - 1) / 8
  REQUIRE(data.train->describe().find("12 samples of 8 tokens an epoch, 4 tokens left over") != std::string::npos);
  REQUIRE(data.validation == nullptr);
  for (std::int64_t n = 0; n < 30; ++n) {
    const OwnedRow row = read_row(*data.train, n, 8);
    for (std::int32_t i = 0; i < 8; ++i) {
      const auto expected = static_cast<std::int32_t>(n % 12 * 8 + i);
      REQUIRE(row.inputs[i] == expected);
      REQUIRE(row.targets[i] == expected + 1);
      REQUIRE(row.positions[i] == i);
      REQUIRE(row.document_start[i] == 0);
    }
  }
}

TEST_CASE("text is tokenised through the cache", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "text.txt", "In the beginning\r\nGod created\n");
  const auto tokenizer = load_tokenizer("bytes");
  for (int again = 0; again < 2; ++again) {
    const auto data =
        open_training_data(config_for(directory / "text.txt", directory), tokenizer.get(), {.context = 5, .seed = 1, .vocab = 256});
    REQUIRE(data.train->tokens() == 29);
    std::string text;
    for (std::int64_t n = 0; n < data.train->samples_per_epoch(); ++n) text += tokenizer->decode(read_row(*data.train, n, 5).inputs);
    REQUIRE(text == "In the beginning\nGod crea");
  }
}

TEST_CASE("token files that cannot be used are refused with their names", "[data]") {
  TemporaryDirectory directory;
  const DataRequest request{.context = 8, .seed = 1, .vocab = 50};
  const auto refusal = [&](const char* name) {
    return message_of([&] { open_training_data(config_for(directory / name, directory), nullptr, request); });
  };
  write_llmc(directory / "bad.bin", counting(0, 60));
  CHECK_THAT(refusal("bad.bin"), Contains("bad.bin, byte 1124: token 50 is not below the vocabulary of 50"));
  write_llmc(directory / "large.bin", std::vector<std::uint32_t>{1, 2, 3, 0x80000001U, 5, 6, 7, 8, 9, 10});
  CHECK_THAT(refusal("large.bin"), Contains("large.bin, byte 1036: token 2147483649 is not below"));
  write_llmc(directory / "none.bin", std::vector<std::uint16_t>{});
  CHECK_THAT(refusal("none.bin"), Contains("none.bin: the header says 0 tokens"));
  write_llmc(directory / "cut.bin", counting(0, 40), 41);
  CHECK_THAT(refusal("cut.bin"), Contains("cut.bin: the header says 41 tokens, which makes 1106 bytes, but the file has 1104"));
  write_llmc(directory / "short.bin", counting(0, 8));
  CHECK_THAT(refusal("short.bin"), Contains("short.bin: 8 tokens are too few for one sample, which takes 9"));
  write_text(directory / "other.bin", "something else");
  CHECK_THAT(refusal("other.bin"), Contains("other.bin is not a token shard"));
  write_text(directory / "header.bin", std::string("\x48\xF0\x34\x01", 4));
  CHECK_THAT(refusal("header.bin"), Contains("header.bin"));
  CHECK_THAT(refusal("missing.bin"), Contains("there is no data") && Contains("missing.bin"));
}

#include <algorithm>

#include "tests/io/data_helpers.h"
#include "tests/io/tokenizer_helpers.h"

using namespace oxrse;
using namespace oxrse::io;
using Catch::Matchers::Contains;

namespace {

using Numbers = std::vector<std::int32_t>;

DataConfig packed(const std::filesystem::path& train, const TemporaryDirectory& directory) {
  DataConfig config = config_for(train, directory);
  config.packing = "documents";
  return config;
}

}  // namespace

TEST_CASE("documents in a row: positions, starts and masked targets", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "t.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"d\"}\n{\"text\": \"efghij\"}\n{\"text\": \"kl\"}\n");
  const auto bytes = load_tokenizer("bytes");
  const auto data =
      open_training_data(packed(directory / "t.jsonl", directory), bytes.get(), {.context = 5, .seed = 1, .vocab = 256}).train;
  REQUIRE(data->samples_per_epoch() == 2);
  const OwnedRow first = read_row(*data, 0, 5);  // abc d e|f
  CHECK(first.inputs == Numbers{'a', 'b', 'c', 'd', 'e'});
  CHECK(first.targets == Numbers{'b', 'c', -1, -1, 'f'});
  CHECK(first.positions == Numbers{0, 1, 2, 0, 0});
  CHECK(first.document_start == Numbers{0, 0, 0, 3, 4});
  const OwnedRow second = read_row(*data, 1, 5);  // fghij|k: the document goes on from the row before, the next one begins after this row
  CHECK(second.inputs == Numbers{'f', 'g', 'h', 'i', 'j'});
  CHECK(second.targets == Numbers{'g', 'h', 'i', 'j', -1});
  CHECK(second.positions == Numbers{0, 1, 2, 3, 4});
  CHECK(second.document_start == Numbers{0, 0, 0, 0, 0});
  CHECK_THAT(data->describe(), Contains("documents kept apart"));
}

TEST_CASE("in shards without a table documents end after the end-of-text token", "[data]") {
  TemporaryDirectory directory;
  write_llmc(directory / "t.bin", std::vector<std::uint16_t>{1, 2, 256, 3, 256, 256, 4, 5, 6, 7, 8});
  const BpeTokenizer tokenizer(train_on(kSmallText, 257));
  const auto data = open_training_data(packed(directory / "t.bin", directory), &tokenizer, {.context = 7, .seed = 1, .vocab = 257}).train;
  const OwnedRow row = read_row(*data, 0, 7);
  CHECK(row.targets == Numbers{2, 256, -1, 256, -1, -1, 5});
  CHECK(row.positions == Numbers{0, 1, 2, 0, 1, 0, 0});
  CHECK(row.document_start == Numbers{0, 0, 0, 3, 3, 5, 6});
  CHECK_THAT(message_of([&] { open_training_data(packed(directory / "t.bin", directory), nullptr, {.context = 7}); }),
             Contains("t.bin: packing \"documents\" needs to know where documents end"));
}

TEST_CASE("where a part was held out a document ends", "[data]") {
  TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "texts");
  const std::string a = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
  write_text(directory / "texts/a.txt", a);
  write_text(directory / "texts/b.txt", a);
  const auto bytes = load_tokenizer("bytes");
  DataConfig config = packed(directory / "texts", directory);
  config.validation_fraction = 0.2;
  const auto data = open_training_data(config, bytes.get(), {.context = 15});
  const OwnedRow row = read_row(*data.train, 2, 15);  // tokens 30 to 44; the first file ends with token 31
  CHECK(bytes->decode(row.inputs) == "EFabcdefghijklm");
  CHECK(row.targets[1] == -1);
  CHECK(std::count(row.targets.begin(), row.targets.end(), -1) == 1);
  CHECK(row.document_start[1] == 0);
  CHECK(row.document_start[2] == 2);
  const OwnedRow held_out = read_row(*data.validation, 0, 15);
  CHECK(bytes->decode(held_out.inputs) == "GHIJKLMNGHIJKLM");
  CHECK(held_out.targets[7] == -1);
  CHECK(held_out.positions[8] == 0);
}

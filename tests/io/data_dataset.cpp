#include <algorithm>
#include <cstdlib>
#include <set>

#include "io/data/sample_order.h"
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

TEST_CASE("both formats of llm.c, several shards as one stream, targets across their borders", "[data]") {
  TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "shards");
  write_llmc(directory / "shards/a_0.bin", counting(0, 37));
  write_llmc(directory / "shards/a_1.bin", counting<std::uint32_t>(37, 5));
  write_llmc(directory / "shards/a_2.bin", counting<std::uint32_t>(42, 71));
  const auto data = open_training_data(config_for(directory / "shards", directory), nullptr, {.context = 7, .seed = 1, .vocab = 113}).train;
  REQUIRE(data->tokens() == 113);
  REQUIRE(data->samples_per_epoch() == 16);
  for (std::int64_t n = 0; n < 40; ++n) {
    const OwnedRow row = read_row(*data, n, 7);
    for (std::int32_t i = 0; i < 7; ++i) {
      REQUIRE(row.inputs[i] == n % 16 * 7 + i);
      REQUIRE(row.targets[i] == row.inputs[i] + 1);
    }
  }
}

TEST_CASE("a shard of more than 2^30 tokens is read to its end", "[data]") {
  TemporaryDirectory directory;
  const std::int64_t count = (std::int64_t{1} << 30U) + 1;
  const auto path = directory / "large.bin";
  write_llmc(path, std::vector<std::uint16_t>{}, static_cast<std::int32_t>(count));
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(1024 + 2 * count));  // a hole: zeros that take no place
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const std::vector<std::uint16_t> last = {7, 8, 9, 10, 11};
  file.seekp(1024 + 2 * (count - 5));
  file.write(reinterpret_cast<const char*>(last.data()), 10);
  file.close();
  const auto data = open_training_data(config_for(path, directory), nullptr, {.context = 1024, .seed = 1, .vocab = 11}).train;
  REQUIRE(data->tokens() == count);
  REQUIRE(data->samples_per_epoch() == std::int64_t{1} << 20U);
  // Every sample but the last two tokens is within the vocabulary; the last token is not, and its place is named.
  CHECK_THAT(message_of([&] { read_row(*data, (1 << 20U) - 1, 1024); }),
             Contains(fmt::format("byte {}: token 11", 1024 + 2 * (count - 1))));
  const auto all = open_training_data(config_for(path, directory), nullptr, {.context = 1024, .seed = 1, .vocab = 12}).train;
  const OwnedRow row = read_row(*all, (1 << 20U) - 1, 1024);
  CHECK(row.inputs[1019] == 0);
  CHECK(row.inputs[1020] == 7);
  CHECK(row.inputs[1023] == 10);
  CHECK(row.targets[1023] == 11);
}

TEST_CASE("shuffled samples are a permutation, another one every epoch, seed and data", "[data]") {
  TemporaryDirectory directory;
  write_llmc(directory / "a.bin", counting(0, 401));
  write_llmc(directory / "b.bin", counting(1, 401));
  const auto order = [&](const char* name, std::uint64_t seed, std::int64_t epoch) {
    DataConfig config = config_for(directory / name, directory);
    config.order = "shuffled";
    const auto data = open_training_data(config, nullptr, {.context = 4, .seed = seed, .vocab = 0}).train;
    std::vector<std::int32_t> first;
    for (std::int64_t i = 0; i < 100; ++i) first.push_back(read_row(*data, epoch * 100 + i, 4).inputs[0] - (*name - 'a'));
    return first;
  };
  const auto base = order("a.bin", 5, 0);
  CHECK(std::set<std::int32_t>(base.begin(), base.end()).size() == 100);
  for (const std::int32_t first : base) CHECK(first % 4 == 0);
  CHECK_FALSE(std::is_sorted(base.begin(), base.end()));
  CHECK(base == order("a.bin", 5, 0));
  for (const auto& other : {order("a.bin", 5, 1), order("a.bin", 6, 0), order("b.bin", 5, 0)}) {
    CHECK(other != base);
    CHECK(std::set<std::int32_t>(other.begin(), other.end()).size() == 100);
  }
  // A copy of the data under another name is the same data.
  std::filesystem::copy_file(directory / "a.bin", directory / "c.bin");
  const auto a = open_training_data(config_for(directory / "a.bin", directory), nullptr, {.context = 4});
  const auto c = open_training_data(config_for(directory / "c.bin", directory), nullptr, {.context = 4});
  CHECK(a.train->fingerprint() == c.train->fingerprint());
}

TEST_CASE("the permutation is one for every size", "[data]") {
  for (std::int64_t size = 1; size < 140; ++size) {
    const Permutation permutation(1, 2, 3, size);
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t value = permutation(i);
      REQUIRE((0 <= value && value < size));
      seen.insert(value);
    }
    REQUIRE(static_cast<std::int64_t>(seen.size()) == size);
  }
  // Each place is as likely as any other: 4000 permutations of 5, counted by what stands first. 5 sigma is 141.
  std::vector<int> counts(5, 0);
  for (std::uint64_t epoch = 0; epoch < 4000; ++epoch) ++counts[Permutation(9, 9, epoch, 5)(0)];
  for (const int count : counts) CHECK(std::abs(count - 800) < 141);
  const std::int64_t huge = (std::int64_t{1} << 40U) + 7;
  CHECK(Permutation(1, 2, 3, huge)(huge - 1) < huge);
}

TEST_CASE("a part of every file is held out, whatever other files there are", "[data]") {
  TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "shards");
  write_llmc(directory / "shards/a.bin", counting(0, 40));
  write_llmc(directory / "shards/b.bin", counting(100, 60));
  DataConfig config = config_for(directory / "shards", directory);
  config.validation_fraction = 0.1;
  const auto data = open_training_data(config, nullptr, {.context = 1});
  REQUIRE(data.validation->tokens() == 4 + 6);
  REQUIRE(data.train->tokens() == 36 + 54);
  std::vector<std::int32_t> held_out;
  for (std::int64_t n = 0; n < data.validation->samples_per_epoch(); ++n) held_out.push_back(read_row(*data.validation, n, 1).inputs[0]);
  CHECK(held_out == std::vector<std::int32_t>{36, 37, 38, 39, 154, 155, 156, 157, 158});
  CHECK(read_row(*data.train, 35, 1).inputs[0] == 35);
  CHECK(read_row(*data.train, 36, 1).inputs[0] == 100);
  config.validation = (directory / "shards/b.bin").string();
  CHECK_THAT(message_of([&] { open_training_data(config, nullptr, {.context = 1}); }), Contains("both set"));
  config.validation_fraction = 0;
  const auto other = open_training_data(config, nullptr, {.context = 1});
  CHECK(other.validation->tokens() == 60);
  CHECK(other.train->tokens() == 100);
}

TEST_CASE("a context longer than the data, and rows of another length", "[data]") {
  TemporaryDirectory directory;
  write_llmc(directory / "t.bin", counting(0, 10));
  const DataConfig config = config_for(directory / "t.bin", directory);
  CHECK(open_training_data(config, nullptr, {.context = 9}).train->samples_per_epoch() == 1);
  CHECK_THAT(message_of([&] { open_training_data(config, nullptr, {.context = 10}); }),
             Contains("t.bin: 10 tokens are too few for one sample, which takes 11"));
  const auto data = open_training_data(config, nullptr, {.context = 3}).train;
  CHECK_THAT(message_of([&] { read_row(*data, 0, 4); }), Contains("samples of 3"));
}

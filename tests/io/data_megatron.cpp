#include <algorithm>
#include <functional>

#include "io/data/megatron_shard.h"
#include "io/data/open_source.h"
#include "tests/io/data_helpers.h"

using namespace oxrse;
using namespace oxrse::io;
using Catch::Matchers::Contains;

namespace {

/// The parts of an index in the order of the format, to be spoilt one by one.
struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t type = 8;
  std::vector<std::int32_t> lengths = {3, 2, 0, 4};
  std::vector<std::int64_t> pointers = {0, 6, 10, 10};
  std::vector<std::int64_t> documents = {0, 1, 2, 3, 4};
  std::uint64_t sequence_count = 4, document_count = 5;

  [[nodiscard]] std::string bytes() const {
    std::string result = magic;
    const auto put = [&](const auto& value) { result.append(reinterpret_cast<const char*>(&value), sizeof value); };
    put(version);
    put(type);
    put(sequence_count);
    put(document_count);
    for (const auto length : lengths) put(length);
    for (const auto pointer : pointers) put(pointer);
    for (const auto document : documents) put(document);
    return result;
  }
};

template <class Stored>
std::string bytes_of(const std::vector<Stored>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Stored)};
}

const std::vector<std::uint16_t> kTokens = {11, 12, 13, 21, 22, 41, 42, 43, 65535};

void write_pair(const TemporaryDirectory& directory, const Index& index, const std::string& tokens = bytes_of(kTokens)) {
  write_text(directory / "t.idx", index.bytes());
  write_text(directory / "t.bin", tokens);
}

std::vector<std::int32_t> tokens_of(const TokenShard& shard) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shard.size()));
  shard.read(0, tokens);
  return tokens;
}

}  // namespace

TEST_CASE("a pair of Megatron files byte by byte", "[data]") {
  TemporaryDirectory directory;
  // Two sequences of two and one tokens, each a document.
  const std::string index(
      "MMIDIDX\0\0"                       // magic
      "\1\0\0\0\0\0\0\0"                  // version 1
      "\10"                               // type 8: uint16
      "\2\0\0\0\0\0\0\0"                  // sequences
      "\3\0\0\0\0\0\0\0"                  // documents + 1
      "\2\0\0\0\1\0\0\0"                  // lengths
      "\0\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0"  // where they begin, in bytes
      "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"  // the sequences that documents begin at,
      "\2\0\0\0\0\0\0\0",                 // and their number
      9 + 8 + 1 + 8 + 8 + 8 + 16 + 24);
  write_text(directory / "t.idx", index);
  write_text(directory / "t.bin", std::string("\1\0\2\0\xff\xff", 6));
  const auto shard = open_token_shard(directory / "t.bin");
  CHECK(tokens_of(*shard) == std::vector<std::int32_t>{1, 2, 65535});
  CHECK(*shard->documents() == std::vector<std::int64_t>{0, 2});
  CHECK(shard->offset_of(2) == 4);
}

TEST_CASE("Megatron files are read by either name and in directories, documents included", "[data]") {
  TemporaryDirectory directory;
  write_pair(directory, {});
  for (const char* name : {"t.bin", "t.idx"}) {
    const auto shard = open_token_shard(directory / name);
    CHECK(tokens_of(*shard) == std::vector<std::int32_t>(kTokens.begin(), kTokens.end()));
    CHECK(*shard->documents() == std::vector<std::int64_t>{0, 3, 5});  // the empty one is left out
  }
  const Source source = find_source(directory.path().string());
  CHECK(source.files == std::vector<std::filesystem::path>{directory / "t.bin"});
  CHECK(source.kind == Source::Kind::Tokens);
  CHECK(open_tokens(source).tokens.size() == 9);
  const DataConfig config = [&] {
    DataConfig packed = config_for(directory / "t.bin", directory);
    packed.packing = "documents";
    return packed;
  }();
  const auto data = open_training_data(config, nullptr, {.context = 8, .seed = 1, .vocab = 65536}).train;
  const OwnedRow row = read_row(*data, 0, 8);
  CHECK(row.targets == std::vector<std::int32_t>{12, 13, -1, 22, -1, 42, 43, 65535});
  CHECK(row.positions == std::vector<std::int32_t>{0, 1, 2, 0, 1, 0, 1, 2});
  CHECK_THAT(message_of([&] { open_training_data(config, nullptr, {.context = 8, .seed = 1, .vocab = 65535}); }),
             Contains("t.bin, byte 16: token 65535 is not below"));
}

TEST_CASE("Megatron files of int32, with documents of several sequences, with none told", "[data]") {
  TemporaryDirectory directory;
  Index index{.type = 4, .pointers = {0, 12, 20, 20}, .documents = {0, 2, 4}, .document_count = 3};
  write_pair(directory, index, bytes_of(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 100000, -2}));
  const auto shard = open_token_shard(directory / "t.bin");
  CHECK(tokens_of(*shard) == std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 100000, -2});
  CHECK(*shard->documents() == std::vector<std::int64_t>{0, 5});
  CHECK_THAT(message_of([&] { open_training_data(config_for(directory / "t.bin", directory), nullptr, {.context = 8}); }),
             Contains("t.bin, byte 32: token 4294967294"));
  index.documents = {};
  index.document_count = 0;
  write_pair(directory, index, bytes_of(std::vector<std::int32_t>(9, 1)));
  CHECK_FALSE(open_token_shard(directory / "t.bin")->documents().has_value());
}

TEST_CASE("Megatron files that are not what they say are refused with the reason", "[data]") {
  TemporaryDirectory directory;
  const auto refusal = [&](const std::function<void(Index&)>& spoil, const std::string& tokens = bytes_of(kTokens)) {
    Index index;
    spoil(index);
    write_pair(directory, index, tokens);
    return message_of([&] { open_token_shard(directory / "t.bin"); });
  };
  CHECK(refusal([](Index&) {}) == "(no error)");
  CHECK_THAT(refusal([](Index& i) { i.magic[8] = 1; }), Contains("t.bin is not a token shard"));
  CHECK_THAT(refusal([](Index& i) { i.version = 2; }), Contains("t.idx: version 2"));
  CHECK_THAT(refusal([](Index& i) { i.type = 5; }), Contains("t.idx: tokens of type 5 (int64); uint16 (8) and int32 (4)"));
  CHECK_THAT(refusal([](Index& i) { i.type = 200; }), Contains("type 200 (unknown)"));
  CHECK_THAT(refusal([](Index& i) { i.type = 0; }), Contains("type 0 (none)"));
  for (const std::uint64_t count : {std::uint64_t{5}, std::uint64_t{1} << 61U, ~std::uint64_t{0}, std::uint64_t{0x1555555555555556}}) {
    CHECK_THAT(refusal([&](Index& i) { i.sequence_count = count; }), Contains("t.idx: the header says") && Contains("too few"));
    CHECK_THAT(refusal([&](Index& i) { i.document_count = std::max<std::uint64_t>(count, 6); }),
               Contains("t.idx: the header says") && Contains("too few"));
  }
  CHECK_THAT(refusal([](Index& i) { i.lengths[1] = -2; }), Contains("t.idx: sequence 1 has -2 tokens"));
  CHECK_THAT(refusal([](Index& i) { i.lengths[3] = 2147483647; }), Contains("t.bin has 18 bytes, but") && Contains("2147483652 tokens"));
  CHECK_THAT(refusal([](Index& i) { i.pointers[1] = 8; }), Contains("sequence 1 begins at byte 8, where byte 6"));
  CHECK_THAT(refusal([](Index& i) { i.pointers[0] = -6; }), Contains("sequence 0 begins at byte -6"));
  CHECK_THAT(refusal([](Index& i) { i.documents[0] = 1; }), Contains("first document begins at sequence 1"));
  CHECK_THAT(refusal([](Index& i) { i.documents[2] = 0; }), Contains("document 2 begins at sequence 0, after 1"));
  CHECK_THAT(refusal([](Index& i) { i.documents[4] = 5; }), Contains("document 4 begins at sequence 5"));
  CHECK_THAT(refusal([](Index& i) { i.documents[4] = 3; }), Contains("the documents end at sequence 3 of 4"));
  CHECK_THAT(refusal([](Index& i) { i.documents[1] = -1; }), Contains("document 1 begins at sequence -1"));
  CHECK_THAT(refusal([](Index&) {}, bytes_of(kTokens) + "x"), Contains("t.bin has 19 bytes, but") && Contains("9 tokens of 2 bytes"));
  CHECK_THAT(refusal([](Index&) {}, ""), Contains("t.bin has 0 bytes"));
  CHECK_THAT(refusal([](Index& i) { i.lengths = {0, 0, 0, 0}, i.pointers = {0, 0, 0, 0}; }, ""), Contains("t.idx has no tokens"));
  const std::string whole = Index().bytes();
  for (std::size_t size = 9; size < whole.size(); ++size) {
    write_text(directory / "t.idx", whole.substr(0, size));
    CHECK_THAT(message_of([&] { open_token_shard(directory / "t.bin"); }), Contains("t.idx"));
  }
  write_text(directory / "t.idx", whole);
  std::filesystem::remove(directory / "t.bin");
  CHECK_THAT(message_of([&] { open_token_shard(directory / "t.idx"); }), Contains("t.bin"));
}

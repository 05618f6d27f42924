#include "io/tokenizer/tokenizer_json.h"

#include <fstream>
#include <functional>
#include <string>

#include "engine/core/error.h"
#include "engine/core/json.h"
#include "io/files.h"
#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/tokenizer.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"
#include "tests/io/tokenizer_helpers.h"

using namespace oxrse;
using namespace oxrse::io;
using Catch::Matchers::Contains;

namespace {

const std::string kNasty = "And the <|endoftext|> gr\xc3\xbc\xc3\x9f 20245 can't\xff\n\n \xf0\x9f\x98\x80";

Json small_json() { return Json::parse(write_tokenizer_json(train_on(kSmallText, 300))); }

/// What loading says about a tokenizer.json that `change` was done to.
std::string refusal(const std::function<void(Json&)>& change) {
  Json json = small_json();
  change(json);
  TemporaryDirectory directory;
  write_file_atomically(directory / "tokenizer.json", json.dump());
  try {
    load_tokenizer((directory / "tokenizer.json").string());
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains("tokenizer.json: "));
    return error.what();
  }
  return "(no error)";
}

}  // namespace

TEST_CASE("a saved tokenizer is the same when it is loaded", "[tokenizer]") {
  TemporaryDirectory directory;
  const std::string file = (directory / "tokenizer.json").string();
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern, std::string_view()}) {
    const BpeTokenizer tokenizer(train_on(kSmallText, 300, pattern));
    tokenizer.save(file);
    for (const std::string& spec : {file, directory.path().string()}) {
      const auto loaded = load_tokenizer(spec);
      CHECK(loaded->fingerprint() == tokenizer.fingerprint());
      CHECK(loaded->encode(kNasty) == tokenizer.encode(kNasty));
      CHECK(loaded->end_of_text() == tokenizer.end_of_text());
      CHECK(loaded->to_json() == tokenizer.to_json());
    }
  }
  const auto bytes = load_tokenizer("bytes");
  bytes->save(file);
  CHECK(load_tokenizer(file)->encode(kNasty) == bytes->encode(kNasty));
  CHECK(load_tokenizer(file)->fingerprint() == bytes->fingerprint());
}

TEST_CASE("tokenizers that differ have different fingerprints", "[tokenizer]") {
  const std::uint64_t base = BpeTokenizer(train_on(kSmallText, 300)).fingerprint();
  CHECK(base != BpeTokenizer(train_on(kSmallText, 299)).fingerprint());
  CHECK(base != BpeTokenizer(train_on(kSmallText, 300, kGpt2Pattern)).fingerprint());
  BpeParts parts = train_on(kSmallText, 300);
  std::swap(parts.merges[3], parts.merges[4]);
  CHECK(base != BpeTokenizer(parts).fingerprint());
}

TEST_CASE("what is not supported in a tokenizer.json is refused by its name", "[tokenizer]") {
  REQUIRE(refusal([](Json&) {}) == "(no error)");
  CHECK_THAT(refusal([](Json& j) { j["normalizer"] = {{"type", "NFC"}}; }), Contains("normalizer") && Contains("NFC"));
  CHECK_THAT(refusal([](Json& j) { j["truncation"] = {{"max_length", 5}}; }), Contains("truncation"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["type"] = "Unigram"; }), Contains("model.type") && Contains("Unigram"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["dropout"] = 0.1; }), Contains("model.dropout"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["byte_fallback"] = true; }), Contains("model.byte_fallback"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }), Contains("model.end_of_word_suffix"));
  CHECK_THAT(refusal([](Json& j) {
               j["pre_tokenizer"] = {{"type", "Metaspace"}};
             }),
             Contains("pre_tokenizer.type") && Contains("Metaspace"));
  CHECK_THAT(refusal([](Json& j) { j["pre_tokenizer"] = nullptr; }), Contains("pre_tokenizer"));
  CHECK_THAT(refusal([](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }),
             Contains("pretokenizers[1].add_prefix_space"));
  CHECK_THAT(refusal([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }),
             Contains("pretokenizers[0].behavior"));
  CHECK_THAT(refusal([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; }), Contains("pretokenizers[0].invert"));
  CHECK_THAT(refusal([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["type"] = "Digits"; }), Contains("Digits"));
  CHECK_THAT(refusal([](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["use_regex"] = true; }), Contains("second pattern"));
  CHECK_THAT(refusal([](Json& j) { j["added_tokens"][0]["lstrip"] = true; }), Contains("added_tokens[0].lstrip"));
}

TEST_CASE("a broken tokenizer.json is refused with the place", "[tokenizer]") {
  CHECK_THAT(refusal([](Json& j) { j["model"]["vocab"]["zz\xc3\xbc\xe2\x96\x81"] = 900; }), Contains("byte-level form"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["vocab"].erase("a"); }), Contains("a"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["vocab"].erase("~"); }), Contains("no token for the byte 0x7e"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["vocab"]["~"] = 97; }), Contains("two tokens with the id 97"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["vocab"]["~"] = -3; }), Contains("-3"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["vocab"]["~"] = 1.5; }), Contains("1.5"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["vocab"]["~"] = 1LL << 40U; }), Contains("1099511627776"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["merges"][3] = "ab"; }), Contains("merge 3") && Contains("a space between"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["merges"][3] = "zq x"; }), Contains("merge 3"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["merges"][3] = "z q"; }), Contains("merge 3") && Contains("no token for the result"));
  CHECK_THAT(refusal([](Json& j) { j["model"]["merges"][3] = 5; }), Contains("model.merges[3]"));
  CHECK_THAT(refusal([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; }), Contains("is not understood"));
  CHECK_THAT(refusal([](Json& j) { j.erase("model"); }), Contains("\"model\" is missing"));
  CHECK_THAT(refusal([](Json& j) { j = Json::array(); }), Contains("\"model\" is missing"));
  TemporaryDirectory directory;
  write_file_atomically(directory / "t.json", "{\"model\": ");
  CHECK_THROWS_WITH(load_tokenizer((directory / "t.json").string()), Contains("t.json: not valid JSON"));
  CHECK_THROWS_WITH(load_tokenizer((directory / "no.json").string()), Contains("no.json"));
  CHECK_THROWS_WITH(load_tokenizer(directory.path().string()), Contains("neither tokenizer.json nor vocab.json"));
}

TEST_CASE("merges may be lists of two, tokens may be added, ids may be left out", "[tokenizer]") {
  const BpeTokenizer plain(train_on(kSmallText, 300));
  Json json = small_json();
  for (Json& merge : json["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  json["added_tokens"].push_back({{"id", 310}, {"content", "<think>"}, {"special", false}});
  json["added_tokens"].push_back({{"id", 312}, {"content", "<think>ing"}, {"special", false}});
  const BpeTokenizer loaded(read_tokenizer_json(json.dump()));
  CHECK(loaded.encode(kNasty) == plain.encode(kNasty));
  CHECK(loaded.vocab_size() == 313);
  CHECK(loaded.encode("<think>ing<think>a") == std::vector<std::int32_t>{312, 310, 97});
  CHECK(loaded.specials() == std::vector<std::string>{"<|endoftext|>"});
  CHECK(loaded.decode(std::vector<std::int32_t>{310, 311, 97}) == "<think>a");
}

TEST_CASE("a piece that is a token can be taken before any merge", "[tokenizer]") {
  Json json = small_json();
  json["model"]["vocab"][to_byte_level(" zebra")] = 300;
  CHECK(BpeTokenizer(read_tokenizer_json(json.dump())).encode(" zebra").size() > 1);
  json["model"]["ignore_merges"] = true;
  const BpeTokenizer loaded(read_tokenizer_json(json.dump()));
  CHECK(loaded.encode(" zebra") == std::vector<std::int32_t>{300});
  CHECK(loaded.encode("<|endoftext|>").size() > 1);
}

TEST_CASE("GPT-2's vocab.json and merges.txt are read", "[tokenizer]") {
  TemporaryDirectory directory;
  const BpeParts parts = train_on(kSmallText, 300, kGpt2Pattern);
  const BpeTokenizer tokenizer(parts);
  Json vocab = Json::parse(write_tokenizer_json(parts))["model"]["vocab"];
  vocab["<|endoftext|>"] = 299;
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : parts.merges)
    merges += to_byte_level(parts.tokens[left]) + " " + to_byte_level(parts.tokens[right]) + "\n";
  write_file_atomically(directory / "vocab.json", vocab.dump());
  CHECK_THROWS_WITH(load_tokenizer(directory.path().string()), Contains("merges.txt"));
  write_file_atomically(directory / "merges.txt", merges);
  const auto loaded = load_tokenizer(directory.path().string());
  CHECK(loaded->encode(kNasty) == tokenizer.encode(kNasty));
  CHECK(loaded->end_of_text() == 299);
  CHECK(loaded->fingerprint() == tokenizer.fingerprint());
}

TEST_CASE("every byte has its printable form", "[tokenizer]") {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(from_byte_level(to_byte_level(all)) == all);
  CHECK(to_byte_level(" \n!~\xa0\xad") == "\xc4\xa0\xc4\x8a!~\xc5\x82\xc5\x83");  // U+0120, U+010A, themselves, U+0142, U+0143
  CHECK_FALSE(from_byte_level("a b").has_value());
  CHECK_FALSE(from_byte_level("\xff").has_value());
}

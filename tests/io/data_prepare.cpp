#include <map>
#include <random>

#include "engine/core/json.h"
#include "io/data/normalise.h"
#include "io/data/open_source.h"
#include "io/data/prepare.h"
#include "io/file_lock.h"
#include "tests/io/data_helpers.h"
#include "tests/io/tokenizer_helpers.h"

using namespace oxrse;
using namespace oxrse::io;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

/// The files of a directory, hidden ones included, with their contents.
std::map<std::string, std::string> contents_of(const fs::path& directory) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::directory_iterator(directory)) contents[entry.path().filename().string()] = read_file(entry.path());
  return contents;
}

std::string text_in(const fs::path& directory) {
  const TokenStream stream = open_tokens(find_source(directory.string())).tokens;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  return load_tokenizer((directory / "tokenizer.json").string())->decode(tokens);
}

std::string jsonl(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += Json{{"text", text}}.dump() + "\n";
  return lines;
}

/// Text of about `bytes`, another one for every seed; no two lines are equal.
std::string many_lines(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) text += fmt::format("line {} of {} says {}\n", i, seed, random());
  return text;
}

/// What a process does that is ended in the middle, as far as files go.
struct Ended {};

/// Prepares, but ends after `groups` groups of text have been written; true when it came to its end.
bool prepare_until(int groups, const std::vector<fs::path>& files, const Tokenizer& tokenizer, const fs::path& out,
                   const TokeniseOptions& options) {
  try {
    prepare(files, tokenizer, out, options, [&](const Progress&) {
      if (groups-- == 0) throw Ended();
    });
    return true;
  } catch (const Ended&) {
    return false;
  }
}

/// Files of every kind, with documents that span parts of files, shards and groups.
std::vector<fs::path> some_files(const TemporaryDirectory& directory) {
  write_text(directory / "a.txt", "\xef\xbb\xbf" + many_lines(2600000, 1));
  std::vector<std::string> texts = {"", "twice"};
  for (unsigned i = 0; i < 30; ++i) texts.push_back(many_lines(i % 20 * 7000, i % 20));
  write_text(directory / "b.jsonl", jsonl(texts) + "not JSON\n" + jsonl({"last", "twice"}));
  write_text(directory / "c.txt", many_lines(2600000, 1));
  write_text(directory / "d.txt", many_lines(700000, 3) + "\xff");
  write_text(directory / "e.txt", many_lines(900000, 5));
  return {directory / "a.txt", directory / "b.jsonl", directory / "c.txt", directory / "d.txt", directory / "e.txt"};
}

}  // namespace

TEST_CASE("prepared text ended anywhere and begun again has the same bytes", "[data]") {
  TemporaryDirectory directory;
  const auto files = some_files(directory);
  const BpeTokenizer tokenizer(train_on(kSmallText, 300));
  struct Case {
    std::int64_t tokens_per_shard;
    int groups;  // of about a MiB of text, that each process gets to
  };
  for (const Case c : {Case{70000, 1}, Case{70000, 2}, Case{1100000, 3}}) {
    CAPTURE(c.tokens_per_shard, c.groups);
    const TokeniseOptions options{.text = {.skip_invalid = true, .deduplicate = true}, .tokens_per_shard = c.tokens_per_shard};
    const fs::path whole = directory / "whole", out = directory / "out";
    const TokeniseSummary expected = prepare(files, tokenizer, whole, options, {});
    CHECK(expected.left_out.invalid == 2);
    CHECK(expected.left_out.empty == 3);        // the first text, and twice 0 bytes of lines
    CHECK(expected.left_out.duplicates == 11);  // "twice", c.txt, and 9 of the 30
    int ended = 0;
    while (ended < 20 && !prepare_until(c.groups, files, tokenizer, out, options)) {
      ++ended;
      CHECK_FALSE(fs::exists(out));
    }
    CHECK(ended > 0);
    REQUIRE(fs::exists(out));
    CHECK((contents_of(out) == contents_of(whole)));
    CHECK_FALSE(fs::exists(directory / "out.unfinished"));
    fs::remove_all(out);
    fs::remove_all(whole);
  }
}

TEST_CASE("an ended prepare goes on only with the same files, tokenizer and options", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "a.txt", many_lines(4000000, 1));
  const auto bytes = load_tokenizer("bytes");
  const BpeTokenizer other(train_on(kSmallText, 300));
  const TokeniseOptions options{.text = {}, .tokens_per_shard = 100000};
  const std::vector<fs::path> files = {directory / "a.txt"};
  REQUIRE_FALSE(prepare_until(2, files, *bytes, directory / "out", options));
  const auto before = contents_of(directory / "out.unfinished");
  const auto refusal = [&](const std::vector<fs::path>& sources, const Tokenizer& tokenizer, const TokeniseOptions& with) {
    const std::string message = message_of([&] { prepare(sources, tokenizer, directory / "out", with, {}); });
    CHECK((contents_of(directory / "out.unfinished") == before));
    return message;
  };
  const std::string why = "out.unfinished holds unfinished work that cannot go on: it was begun with other files, another tokenizer";
  CHECK_THAT(refusal({files[0], files[0]}, *bytes, options), Contains(why));
  CHECK_THAT(refusal(files, other, options), Contains(why));
  CHECK_THAT(refusal(files, *bytes, {.text = {.nfc = true}, .tokens_per_shard = 100000}), Contains(why));
  CHECK_THAT(refusal(files, *bytes, {.text = {.deduplicate = true}, .tokens_per_shard = 100000}), Contains(why));
  CHECK_THAT(refusal(files, *bytes, {.text = {}, .tokens_per_shard = 100001}), Contains(why));
  {
    const FileLock other_process(directory / "out.unfinished/.lock");
    CHECK_THAT(refusal(files, *bytes, options), Contains("another process is preparing"));
  }
  write_text(directory / "out.unfinished/shard_00000.h5", "damaged");
  CHECK_THAT(message_of([&] { prepare(files, *bytes, directory / "out", options, {}); }), Contains("shard_00000.h5"));
  fs::remove_all(directory / "out.unfinished");
  CHECK(prepare(files, *bytes, directory / "out", options, {}).tokens == static_cast<std::int64_t>(fs::file_size(files[0])));
  CHECK_THAT(message_of([&] { prepare(files, *bytes, directory / "out", options, {}); }), Contains("not an empty directory"));
}

TEST_CASE("what skips invalid documents goes on where not skipping them failed", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "a.txt", many_lines(3000000, 1));
  write_text(directory / "b.jsonl", "not JSON\n" + jsonl({"fine"}));
  const auto bytes = load_tokenizer("bytes");
  TokeniseOptions options{.text = {}, .tokens_per_shard = 100000};
  const std::vector<fs::path> files = {directory / "a.txt", directory / "b.jsonl"};
  CHECK_THAT(message_of([&] { prepare(files, *bytes, directory / "out", options, {}); }), Contains("b.jsonl:1: not valid JSON"));
  CHECK(fs::exists(directory / "out.unfinished/shard_00000.h5"));
  options.text.skip_invalid = true;
  const TokeniseSummary summary = prepare(files, *bytes, directory / "out", options, {});
  CHECK(summary.left_out.invalid == 1);
  prepare(files, *bytes, directory / "whole", options, {});
  CHECK((contents_of(directory / "out") == contents_of(directory / "whole")));
}

TEST_CASE("documents equal to an earlier one are left out and counted", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "a.jsonl", jsonl({"one", "two", "one", "One", "two\r\n"}));
  write_text(directory / "b.txt", "two");
  write_text(directory / "c.txt", "two\r\n");
  write_text(directory / "d.txt", "two\n");
  write_text(directory / "e.jsonl", jsonl({"one", "one"}));
  const auto bytes = load_tokenizer("bytes");
  std::vector<fs::path> files;
  for (const char* name : {"a.jsonl", "b.txt", "c.txt", "d.txt", "e.jsonl"}) files.push_back(directory / name);
  const TokeniseSummary summary = prepare(files, *bytes, directory / "out", {.text = {.deduplicate = true}}, {});
  CHECK(text_in(directory / "out") == "onetwoOnetwo\r\ntwo\n");
  CHECK(summary.documents == 5);
  CHECK(summary.left_out.duplicates == 5);
  const Json index = Json::parse(read_file(directory / "out/dataset.json"));
  CHECK(index.at("left_out").at("duplicates") == 5);
  CHECK(index.at("files").size() == 5);
  CHECK(index.at("files").at(1).at("tokens") == 0);
  CHECK(index.at("files").at(2).at("tokens") == 4);
  // With line ends made equal in JSONL, too, c.txt is a repetition as well.
  const TextOptions lf{.line_ends = TextOptions::LineEnds::Lf, .deduplicate = true};
  CHECK(prepare(files, *bytes, directory / "lf", {.text = lf}, {}).left_out.duplicates == 6);
  CHECK(text_in(directory / "lf") == "onetwoOnetwo\n");
}

TEST_CASE("de-duplication keeps to its memory and goes on with more", "[data]") {
  DocumentSet small(256 * 16 * 16);  // 16 places for every first byte
  std::mt19937_64 random(1);
  std::vector<Hash128> met;
  const std::string message = message_of([&] {
    for (int i = 0; i < 100000; ++i) {
      const Hash128 hash{random(), random()};
      const bool is_new = small.insert(hash);
      CHECK(is_new);
      met.push_back(hash);
    }
  });
  CHECK_THAT(message, Contains("different documents do not fit into the 65536 bytes") && Contains("--deduplicate-memory"));
  CHECK(small.bytes() <= 65536);
  CHECK(met.size() > 1000);
  for (const Hash128 hash : met) REQUIRE_FALSE(small.insert(hash));
  CHECK(small.size() == static_cast<std::int64_t>(met.size()));
  DocumentSet zero(1 << 20);
  CHECK(zero.insert({0, 0}));
  CHECK_FALSE(zero.insert({0, 0}));

  TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 120000; ++i) lines += fmt::format("{{\"text\": \"document {}\"}}\n", i);
  write_text(directory / "a.jsonl", lines + lines);
  const auto bytes = load_tokenizer("bytes");
  TokeniseOptions options{.text = {.deduplicate = true, .deduplicate_bytes = 256 * 256 * 16}, .tokens_per_shard = 50000};
  CHECK_THAT(message_of([&] { prepare({directory / "a.jsonl"}, *bytes, directory / "out", options, {}); }), Contains("do not fit"));
  options.text.deduplicate_bytes = 1 << 28;
  const TokeniseSummary summary = prepare({directory / "a.jsonl"}, *bytes, directory / "out", options, {});
  CHECK(summary.documents == 120000);
  CHECK(summary.left_out.duplicates == 120000);
}

TEST_CASE("invalid documents are left out, counted and named where that is asked for", "[data]") {
  TemporaryDirectory directory;
  fs::create_directory(directory / "texts");
  write_text(directory / "texts/a.jsonl", "{\"text\": \"one\"}\n[1]\n{\"text\": \"two\"}\n{\"text\": 3}\nno\n\n{\"text\": \"\"}\n");
  write_text(directory / "texts/b.txt", "good until \xfc here");
  write_text(directory / "texts/c.txt", "");
  write_text(directory / "texts/d.jsonl", "no\nno\n");
  write_text(directory / "texts/e.txt", "three");
  write_text(directory / "texts/f.jsonl", "{\"text\": \"\"}\n");
  DataConfig config = config_for(directory / "texts", directory);
  const auto bytes = load_tokenizer("bytes");
  const DataRequest request{.context = 3, .seed = 1, .vocab = 256};
  CHECK_THAT(message_of([&] { open_training_data(config, bytes.get(), request); }), Contains("a.jsonl:2: found"));
  config.on_error = "skip";
  for (int again = 0; again < 2; ++again) {  // the second time from the cache
    const TrainingData data = open_training_data(config, bytes.get(), request);
    CHECK(data.train->tokens() == 11);
    CHECK(bytes->decode(read_row(*data.train, 0, 3).inputs) == "one");
    REQUIRE(data.notes.size() == 1);
    CHECK_THAT(data.notes[0], Contains("texts: 8 invalid files or lines were left out") && Contains("a.jsonl:2") && Contains("a.jsonl:4") &&
                                  Contains("a.jsonl:5") && Contains("b.txt:1: byte 11") && Contains("c.txt is empty"));
    CHECK_THAT(data.notes[0], !Contains("d.jsonl"));  // only the first five are told
  }
  config.on_error = "error";
  CHECK_THAT(message_of([&] { open_training_data(config, bytes.get(), request); }), Contains("a.jsonl:2"));
  config.train = (directory / "texts/d.jsonl").string();
  config.on_error = "skip";
  CHECK_THAT(message_of([&] { open_training_data(config, bytes.get(), request); }),
             Contains("there are no tokens to write") && Contains("2 invalid") && Contains("d.jsonl:1"));
  config.train = (directory / "texts/a.jsonl").string();
  config.bpe_vocab = 257;
  CHECK(open_tokenizer(config)->vocab_size() == 257);
}

TEST_CASE("line ends as asked for", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "a.txt", "a\r\nb\rc\r\n");
  write_text(directory / "b.jsonl", jsonl({"d\r\ne"}));
  const auto bytes = load_tokenizer("bytes");
  using LineEnds = TextOptions::LineEnds;
  for (const auto& [line_ends, expected] : {std::pair(LineEnds::Auto, "a\nb\rc\nd\r\ne"), std::pair(LineEnds::Lf, "a\nb\rc\nd\ne"),
                                            std::pair(LineEnds::Keep, "a\r\nb\rc\r\nd\r\ne")}) {
    const fs::path out = directory / fmt::format("out{}", static_cast<int>(line_ends));
    prepare({directory / "a.txt", directory / "b.jsonl"}, *bytes, out, {.text = {.line_ends = line_ends}}, {});
    CHECK(text_in(out) == expected);
  }
}

TEST_CASE("text is brought into normalization form C where that is asked for", "[data]") {
#ifdef OXRSE_HAVE_UTF8PROC
  // From UAX #15: composed, composed twice, a singleton, an excluded composition, marks put in order, Hangul, what must not change.
  const std::vector<std::pair<std::string, std::string>> cases = {{"plain", "plain"},
                                                                  {"e\u0301", "\u00e9"},
                                                                  {"s\u0323\u0307", "\u1e69"},
                                                                  {"s\u0307\u0323", "\u1e69"},
                                                                  {"\u212b", "\u00c5"},
                                                                  {"\u0958", "\u0915\u093c"},
                                                                  {"d\u0307\u0327", "\u1e11\u0307"},
                                                                  {"\u1112\u1161\u11ab", "\ud55c"},
                                                                  {"\ufb01", "\ufb01"},
                                                                  {"\n\u0301", "\n\u0301"},
                                                                  {std::string("a\0b\u00fc", 5), std::string("a\0b\u00fc", 5)}};
  TemporaryDirectory directory;
  const auto bytes = load_tokenizer("bytes");
  std::vector<std::string> texts;
  for (const auto& [text, normal] : cases) {
    CHECK(to_nfc(text) == normal);
    CHECK(to_nfc(normal) == normal);
    texts.push_back(text);
  }
  write_text(directory / "a.jsonl", jsonl(texts));
  write_text(directory / "b.txt", "u\u0308ber\r\n");
  const TokeniseOptions options{.text = {.nfc = true, .deduplicate = true}};
  const TokeniseSummary summary = prepare({directory / "a.jsonl", directory / "b.txt"}, *bytes, directory / "out", options, {});
  CHECK(summary.left_out.duplicates == 1);  // the two orders of the marks above
  CHECK_THAT(text_in(directory / "out"), Contains("\u00fcber\n") && Contains("\ud55c"));
#else
  CHECK_THAT(message_of([] { require_nfc(); }), Contains("libutf8proc-dev"));
#endif
}

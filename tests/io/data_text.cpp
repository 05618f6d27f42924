#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <iterator>
#include <random>

#include "io/data/dataset_writer.h"
#include "io/data/open_source.h"
#include "io/data/text_reader.h"
#include "io/data/tokenise.h"
#include "tests/io/data_helpers.h"
#include "tests/io/tokenizer_helpers.h"

using namespace oxrse;
using namespace oxrse::io;
using Catch::Matchers::Contains;

namespace {

/// Every token of a source, tokenised through a cache in `directory`.
std::vector<std::int32_t> tokens_of(const std::filesystem::path& source, const Tokenizer& tokenizer, const std::filesystem::path& cache) {
  const TokenStream stream = open_source(find_source(source.string()), &tokenizer, cache, {}, {}).tokens;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  return tokens;
}

std::string refusal(const TemporaryDirectory& directory, const char* name) {
  const auto tokenizer = load_tokenizer("bytes");
  return message_of([&] { tokens_of(directory / name, *tokenizer, directory / "cache"); });
}

/// Lines of words, some of them odd.
std::string long_text(std::size_t bytes) {
  static const std::vector<std::string> kWords = {
      "the", " Lord", " said", "\n", " \n\n", " \xc3\xbc", "\r\n", "'s", " 123456", "--", "\xf0\x9f\x98\x80", "  x"};
  std::mt19937 random(4);
  std::string text;
  while (text.size() < bytes) text += kWords[random() % kWords.size()];
  return text;
}

}  // namespace

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

TEST_CASE("byte order marks and line ends of text files", "[data]") {
  TemporaryDirectory directory;
  const auto bytes = load_tokenizer("bytes");
  const auto read = [&](std::string_view text) {
    write_text(directory / "t.txt", text);
    return bytes->decode(tokens_of(directory / "t.txt", *bytes, directory / "cache"));
  };
  CHECK(read("\xef\xbb\xbfone") == "one");
  CHECK(read("a\r\nb\r\n\r\nc\r") == "a\nb\n\nc\r");
  CHECK(read("\r\n") == "\n");
  CHECK(read("a\xef\xbb\xbf") == "a\xef\xbb\xbf");
  CHECK(read(std::string("a\0b", 3)) == std::string("a\0b", 3));
}

TEST_CASE("text that cannot be used is refused with file and place", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "empty.txt", "");
  CHECK_THAT(refusal(directory, "empty.txt"), Contains("empty.txt is empty"));
  write_text(directory / "bom.txt", "\xef\xbb\xbf");
  CHECK_THAT(refusal(directory, "bom.txt"), Contains("bom.txt is empty"));
  write_text(directory / "latin.txt", "one\ntwo \xfc three");
  CHECK_THAT(refusal(directory, "latin.txt"), Contains("latin.txt:2: byte 8 of the file, 0xfc, is not UTF-8"));
  std::filesystem::create_directory(directory / "nothing");
  CHECK_THAT(refusal(directory, "nothing"), Contains("nothing has no files"));
  std::filesystem::create_directory(directory / "mixed");
  write_text(directory / "mixed/a.txt", "text");
  write_llmc(directory / "mixed/b.bin", counting(0, 9));
  CHECK_THAT(refusal(directory, "mixed"), Contains("mixes text") && Contains("a.txt") && Contains("b.bin"));
  write_text(directory / "t.txt", "text");
  CHECK_THAT(message_of([&] { open_training_data(config_for(directory / "t.txt", directory), nullptr, {.context = 2}); }),
             Contains("t.txt is text, which needs a tokenizer"));
  CHECK_THAT(message_of([&] { open_tokenizer(config_for(directory / "t.txt", directory)); }), Contains("data.bpe_vocab"));
  DataConfig config;
  CHECK_THAT(message_of([&] { open_tokenizer(config); }), Contains("no data is named"));
}

TEST_CASE("pipes and loops of links are refused with their names", "[data]") {
  TemporaryDirectory directory;
  REQUIRE(::mkfifo((directory / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(refusal(directory, "pipe"), Contains("pipe is neither a file nor a directory"));
  std::filesystem::create_directory(directory / "loop");
  std::filesystem::create_directory_symlink(directory / "loop", directory / "loop/again");
  write_text(directory / "loop/a.txt", "text");
  CHECK_THAT(refusal(directory, "loop"), Contains("loop cannot be searched"));
}

TEST_CASE("a malformed line of JSONL is named", "[data]") {
  TemporaryDirectory directory;
  const auto with_line_7 = [&](std::string_view line) {
    std::string text;
    for (int i = 1; i <= 9; ++i) text += (i == 7 ? std::string(line) : fmt::format(R"({{"text": "line {}"}})", i)) + "\n";
    write_text(directory / "t.jsonl", text);
    return refusal(directory, "t.jsonl");
  };
  CHECK(with_line_7("") == "(no error)");
  CHECK(with_line_7(R"({"text": "x", "id": 3})") == "(no error)");
  CHECK_THAT(with_line_7(R"({"text": "x)"), Contains("t.jsonl:7: not valid JSON"));
  CHECK_THAT(with_line_7(R"({"txt": "x"})"), Contains("t.jsonl:7: found") && Contains("string \"text\""));
  CHECK_THAT(with_line_7(R"({"text": 5})"), Contains("t.jsonl:7: found"));
  CHECK_THAT(with_line_7(R"(["text"])"), Contains("t.jsonl:7: found"));
  CHECK_THAT(with_line_7("{\"text\": \"\xff\"}"), Contains("t.jsonl:7: not valid JSON"));
  CHECK_THAT(with_line_7(R"({"text": "x", "deep": )" + std::string(200000, '[')),
             Contains("t.jsonl:7: not valid JSON (nested more than 200"));
  CHECK_THAT(with_line_7(R"({"text": "x"} x)"), Contains("t.jsonl:7: not valid JSON (at byte 15") && !Contains("line 1"));
  write_text(directory / "empties.jsonl", "{\"text\": \"\"}\n\n");
  CHECK_THAT(refusal(directory, "empties.jsonl"), Contains("empties.jsonl has no documents"));
}

TEST_CASE("documents end with the end-of-text token, empty ones are left out", "[data]") {
  TemporaryDirectory directory;
  const BpeTokenizer tokenizer(train_on(kSmallText, 257));
  std::filesystem::create_directory(directory / "texts");
  write_text(directory / "texts/a.jsonl", "{\"text\": \"ab\"}\r\n{\"text\": \"\"}\n\n{\"text\": \"c\\r\\nd\"}");
  write_text(directory / "texts/b.txt", "ef");
  write_text(directory / "texts/.hidden", "no");
  CHECK(tokens_of(directory / "texts", tokenizer, directory / "cache") ==
        std::vector<std::int32_t>{'a', 'b', 256, 'c', '\r', '\n', 'd', 256, 'e', 'f', 256});
}

TEST_CASE("text of many parts is encoded like a whole", "[data]") {
  TemporaryDirectory directory;
  const std::string text = long_text(5 << 19U);
  write_text(directory / "t.txt", text);
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\r\n") != 0) plain += text[i];
  }
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern}) {
    const BpeTokenizer tokenizer(train_on(text.substr(0, 20000), 300, pattern));
    std::vector<std::int32_t> expected = tokenizer.encode(plain);
    expected.push_back(*tokenizer.end_of_text());
    const auto tokens = tokens_of(directory / "t.txt", tokenizer, directory / "cache");
    REQUIRE(tokens.size() == expected.size());
    CHECK(tokens == expected);
  }
}

TEST_CASE("the cache is used, and only for the same text and tokenizer", "[data]") {
  TemporaryDirectory directory;
  const auto bytes = load_tokenizer("bytes");
  const BpeTokenizer trained(train_on(kSmallText, 300));
  const auto cached = [&] {
    const std::filesystem::directory_iterator entries(directory / "cache");
    return std::distance(begin(entries), end(entries));
  };
  write_text(directory / "t.txt", kSmallText);
  tokens_of(directory / "t.txt", *bytes, directory / "cache");
  std::filesystem::copy_file(directory / "t.txt", directory / "copy.txt");
  tokens_of(directory / "copy.txt", *bytes, directory / "cache");
  CHECK(cached() == 1);
  tokens_of(directory / "t.txt", trained, directory / "cache");
  CHECK(cached() == 2);
  write_text(directory / "t.txt", std::string(kSmallText) + "!");
  tokens_of(directory / "t.txt", *bytes, directory / "cache");
  CHECK(cached() == 3);
}

TEST_CASE("processes that build the same cache at once all read a whole one", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "t.txt", long_text(300000));
  const auto bytes = load_tokenizer("bytes");
  const auto expected = tokens_of(directory / "t.txt", *bytes, directory / "other");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool same = false;
      try {
        same = tokens_of(directory / "t.txt", *bytes, directory / "cache") == expected;
      } catch (...) {
      }
      ::_exit(same ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  const std::filesystem::directory_iterator entries(directory / "cache");
  CHECK(std::distance(begin(entries), end(entries)) == 1);  // nothing is left of those that lost
}

TEST_CASE("a tokenizer is trained on the training text and kept", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "t.txt", kSmallText);
  DataConfig config = config_for(directory / "t.txt", directory);
  config.bpe_vocab = 290;
  const auto tokenizer = open_tokenizer(config);
  CHECK(tokenizer->vocab_size() == 290);
  CHECK(tokenizer->fingerprint() == BpeTokenizer(train_on(kSmallText, 290)).fingerprint());
  CHECK(open_tokenizer(config)->fingerprint() == tokenizer->fingerprint());
  const auto data = open_training_data(config, tokenizer.get(), {.context = 16, .seed = 1, .vocab = 290});
  CHECK(tokenizer->decode(read_row(*data.train, 0, 16).inputs) ==
        std::string(kSmallText).substr(0, tokenizer->decode(read_row(*data.train, 0, 16).inputs).size()));
  config.tokenizer = "bytes";
  CHECK_THAT(message_of([&] { open_tokenizer(config); }), Contains("both set"));
}

TEST_CASE("shards are written and read again, over several of them", "[data]") {
  TemporaryDirectory directory;
  const auto bytes = load_tokenizer("bytes");
  write_text(directory / "a.jsonl", "{\"text\": \"abcdefg\"}\n{\"text\": \"hi\"}\n{\"text\": \"jklmnopqrs\"}\n");
  std::filesystem::create_directory(directory / "out");
  DatasetWriter writer(directory / "out", *bytes, 4);
  for (const char* document : {"abcdefg", "hi", "jklmnopqrs"}) {
    writer.add(bytes->encode(document));
    writer.end_document();
  }
  writer.end_file("a");
  writer.add(bytes->encode("t"));
  writer.end_document();
  writer.end_file("b");
  writer.finish();
  const Source source = find_source((directory / "out").string());
  CHECK(source.files.size() == 5);
  const BpeTokenizer other(train_on(kSmallText, 260));
  CHECK(open_tokens(source, bytes.get()).tokens.size() == 20);
  CHECK_THAT(message_of([&] { open_tokens(source, &other); }), Contains("shard_00000.h5") && Contains("made with another tokenizer"));
  const TokenStream stream = open_tokens(source).tokens;
  std::vector<std::int32_t> tokens(20);
  stream.read(0, tokens);
  CHECK(bytes->decode(tokens) == "abcdefghijklmnopqrst");
  CHECK(stream.document_starts(0, tokens, std::nullopt) == std::vector<std::int64_t>{7, 9, 19});
  CHECK(stream.document_starts(5, std::span(tokens).subspan(5, 4), std::nullopt) == std::vector<std::int64_t>{2});
  const auto [rest, held_out] = stream.hold_out(0.5);
  CHECK(rest.size() == 11);  // 10 of 19 and 1 of 1
  CHECK(held_out.size() == 9);
  CHECK_THAT(stream.locate(4), Contains("shard_00001.h5, byte "));
  std::filesystem::remove(directory / "out/shard_00004.h5");
  CHECK_THAT(message_of([&] { open_tokens(find_source((directory / "out").string())); }), Contains("dataset.json says 20 tokens"));
}

TEST_CASE("a flipped byte in a shard is named, and what is damaged in the cache is made again", "[data]") {
  TemporaryDirectory directory;
  const auto bytes = load_tokenizer("bytes");
  write_text(directory / "t.txt", kSmallText);
  const DataConfig config = config_for(directory / "t.txt", directory);
  const DataRequest request{.context = 4, .seed = 1, .vocab = 256};
  const auto expected = tokens_of(directory / "t.txt", *bytes, directory / "cache");
  const std::filesystem::path cached = std::filesystem::directory_iterator(directory / "cache")->path();
  const std::string whole = read_file(cached / "shard_00000.h5");
  const auto damage = [&](const std::function<void()>& how) {
    how();
    const TrainingData data = open_training_data(config, bytes.get(), request);
    CHECK((read_file(cached / "shard_00000.h5") == whole));
    CHECK(tokens_of(directory / "t.txt", *bytes, directory / "cache") == expected);
    REQUIRE(data.notes.size() == 1);
    return data.notes[0];
  };
  const std::string word("v\0o\0i\0d\0", 8);  // two bytes a token
  REQUIRE(whole.find(word) != std::string::npos);
  std::string flipped = whole;
  flipped[whole.find(word)] ^= 1;
  CHECK_THAT(damage([&] { write_text(cached / "shard_00000.h5", flipped); }), Contains("shard_00000.h5: the checksum of /tokens"));
  CHECK_THAT(damage([&] { write_text(cached / "shard_00000.h5", whole.substr(0, whole.size() / 2)); }), Contains("cache was damaged"));
  CHECK_THAT(damage([&] { write_text(cached / "dataset.json", "{"); }), Contains("dataset.json"));
  CHECK_THAT(damage([&] { std::filesystem::remove(cached / "dataset.json"); }), Contains("no dataset.json"));
}

TEST_CASE("empty shards and fractions of nothing are refused with their names", "[data]") {
  TemporaryDirectory directory;
  write_text(directory / "empty.bin", "");
  CHECK_THAT(refusal(directory, "empty.bin"), Contains("empty.bin is empty"));
  write_text(directory / "t.txt", kSmallText);
  DataConfig config = config_for(directory / "t.txt", directory);
  config.validation_fraction = 1e-9;
  const auto bytes = load_tokenizer("bytes");
  CHECK_THAT(message_of([&] { open_training_data(config, bytes.get(), {.context = 4}); }), Contains("data.validation_fraction 1e-09"));
}

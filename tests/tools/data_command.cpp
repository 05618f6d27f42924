#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/catch.h"
#include "tests/io/temporary.h"
#include "tests/tools/command.h"
#include "tools/progress_line.h"

using namespace oxrse::test;
using Catch::Matchers::Contains;
using oxrse::io::TemporaryDirectory;

TEST_CASE("from text to a tokenizer, to shards, to what is in them") {
  TemporaryDirectory directory;
  const std::string in = directory.path().string() + "/";
  std::ofstream(in + "a.txt") << "the cat and the hat and the bat";
  std::ofstream(in + "b.jsonl") << "{\"text\": \"the rat\"}\n{\"text\": \"\"}\n{\"text\": \"the mat\"}\n";

  const CommandResult trained = run_command("data tokenizer " + in + "a.txt " + in + "b.jsonl --vocab 260 --out " + in + "t.json");
  INFO(trained.err);
  REQUIRE(trained.exit_code == 0);
  CHECK(trained.out == in + "t.json: 260 tokens\n");

  const std::string prepare = "data prepare " + in + "a.txt " + in + "b.jsonl --tokenizer " + in + "t.json --out " + in + "shards";
  const CommandResult prepared = run_command(prepare);
  INFO(prepared.err);
  REQUIRE(prepared.exit_code == 0);
  CHECK_THAT(prepared.out, Contains("tokens in 3 documents") && Contains("1 empty documents were left out"));
  CHECK(std::filesystem::exists(in + "shards/dataset.json"));

  const CommandResult again = run_command(prepare);
  CHECK(again.exit_code == 1);
  CHECK_THAT(again.err, Contains("shards exists and is not an empty directory"));

  const CommandResult inspected = run_command("data inspect " + in + "shards");
  CHECK_THAT(inspected.out, Contains("the largest is 259") && Contains("3 documents begin") && Contains("left out: 1 empty documents") &&
                                Contains("at token 0: the cat and the hat and the bat<|endoftext|>\n") &&
                                Contains(": the mat<|endoftext|>\n"));
  const CommandResult numbers = run_command("data inspect --tokenizer bytes --samples 1 " + in + "shards");
  CHECK_THAT(numbers.out, Contains("<259: not in the tokenizer's vocabulary>"));
  const CommandResult text = run_command("data inspect " + in + "b.jsonl");
  CHECK_THAT(text.out, Contains("documents: 2, of 7 to 7 bytes, 7.0 on average\n                 4-7 "
                                "######################################## 2\n") &&
                           Contains("left out: 1 empty documents") && Contains(": the mat\n"));
}

TEST_CASE("prepare killed again and again goes on to the same bytes") {
  TemporaryDirectory directory;
  const std::string in = directory.path().string() + "/";
  {
    std::ofstream text(in + "a.jsonl");
    for (int i = 0; i < 60000; ++i) text << "{\"text\": \"document " << i * 7919 % 50000 << " of many, each with some words in it\"}\n";
  }
  const std::string prepare = "data prepare " + in + "a.jsonl --tokenizer bytes --deduplicate --shard-tokens 40000 --out ";
  const CommandResult whole = run_command(prepare + in + "whole");
  REQUIRE(whole.exit_code == 0);
  CHECK_THAT(whole.out, Contains("in 50000 documents") && Contains("10000 documents were left out"));
  int killed = 0, unfinished = 0;
  CommandResult last;
  for (double seconds = 0.02; killed < 100; seconds *= 1.2, ++killed) {
    last = run_command(prepare + in + "out", fmt::format("timeout -s KILL {}", seconds));
    if (last.exit_code == 0) break;
    CHECK(last.exit_code == 137);
    if (std::filesystem::exists(in + "out")) break;  // the kill came after all was done
    unfinished += std::filesystem::exists(in + "out.unfinished/.journal.cbor") ? 1 : 0;
  }
  INFO(killed << " kills, " << unfinished << " with work done");
  if (last.exit_code == 0) CHECK(last.out.substr(last.out.find(':')) == whole.out.substr(whole.out.find(':')));
  CHECK(killed >= 3);
  CHECK(unfinished >= 1);
  CHECK_FALSE(std::filesystem::exists(in + "out.unfinished"));
  // The last kill may have come when all was done but for letting go of the lock.
  CHECK(std::system(("diff -r -x .lock " + in + "whole " + in + "out").c_str()) == 0);
}

TEST_CASE("what prepare is told about text") {
  TemporaryDirectory directory;
  const std::string in = directory.path().string() + "/";
  std::ofstream(in + "a.jsonl") << "{\"text\": \"one\"}\nno\n{\"text\": \"one\"}\n{\"text\": \"two\\r\\n\"}\n";
  const CommandResult prepared = run_command("data prepare " + in + "a.jsonl --tokenizer bytes --out " + in +
                                             "out/ --on-error skip --deduplicate --deduplicate-memory 0.5 --line-ends lf --shard-tokens 3");
  INFO(prepared.err);
  REQUIRE(prepared.exit_code == 0);
  CHECK_THAT(prepared.out, Contains("7 tokens in 2 documents") && Contains("1 documents were left out because") &&
                               Contains("1 invalid files or lines were left out:") && Contains("a.jsonl:2: not valid JSON"));
  CHECK(std::filesystem::exists(in + "out/shard_00002.h5"));
  CHECK_THAT(run_command("data inspect " + in + "out").out, Contains(": two\\n\n"));
  for (const char* wrong : {"--on-error maybe", "--normalise nfd", "--line-ends crlf", "--shard-tokens 0", "--deduplicate-memory -1",
                            "--deduplicate --deduplicate-memory nan", "--deduplicate-memory 1e300"}) {
    const CommandResult refused = run_command("data prepare " + in + "a.jsonl --tokenizer bytes --out " + in + "other " + wrong);
    CHECK(refused.exit_code != 0);
    CHECK_THAT(refused.err, Contains(std::string(wrong).substr(0, std::string(wrong).find(' '))));
  }
  CHECK_THAT(run_command("data prepare --help").out, Contains("in GiB") && Contains("in tokens") && Contains("goes on where it was"));
}

TEST_CASE("the progress line says how far, how fast and how long") {
  using oxrse::tools::progress_text;
  CHECK(progress_text({.what = "tokenising", .unit = "bytes", .done = 120000000, .total = 300000000}, 80000000, 2) ==
        "[########............]  40%  tokenising 120.0 of 300.0 MB, 40.0 MB/s, 5 s left");
  CHECK(progress_text({.what = "training", .unit = "tokens", .done = 0, .total = 300}, 0, 0.1) ==
        "[....................]   0%  training 0 of 300 tokens");
}

TEST_CASE("what data commands cannot do leaves nothing behind") {
  TemporaryDirectory directory;
  const std::string in = directory.path().string() + "/";
  std::ofstream(in + "bad.jsonl") << "{\"text\": \"fine\"}\nnot JSON\n";
  const CommandResult prepared = run_command("data prepare " + in + "bad.jsonl --tokenizer bytes --out " + in + "shards");
  CHECK(prepared.exit_code == 1);
  CHECK_THAT(prepared.err, Contains("bad.jsonl:2: not valid JSON"));
  const CommandResult trained = run_command("data tokenizer " + in + "bad.jsonl --vocab 300 --out " + in + "t.json");
  CHECK(trained.exit_code == 1);
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), std::filesystem::directory_iterator()) == 1);
  for (const char* vocab : {"100", "99999999999"}) {
    CHECK_THAT(run_command("data tokenizer " + in + "bad.jsonl --out x --vocab " + vocab).err, Contains("--vocab"));
  }
  for (const std::string& taken : {in + "bad.jsonl", in}) {
    CHECK_THAT(run_command("data tokenizer " + in + "bad.jsonl --vocab 300 --out " + taken).err, Contains("exists already"));
  }
}

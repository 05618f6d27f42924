#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/catch.h"
#include "tests/io/temporary.h"
#include "tests/tools/command.h"

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
  CHECK_THAT(inspected.out, Contains("the largest is 259") && Contains("3 documents begin") &&
                                Contains("the cat and the hat and the bat<|endoftext|>the rat"));
  CHECK_THAT(run_command("data inspect " + in + "b.jsonl").out, Contains("in 2 documents (1 more are empty)"));
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
  const CommandResult onto_itself = run_command("data tokenizer " + in + "bad.jsonl --vocab 300 --out " + in + "bad.jsonl");
  CHECK(onto_itself.exit_code == 1);
  CHECK_THAT(onto_itself.err, Contains("bad.jsonl exists"));
  CHECK_THAT(run_command("data tokenizer " + in + "bad.jsonl --vocab 100 --out x").err, Contains("--vocab: expected an integer from 257"));
}

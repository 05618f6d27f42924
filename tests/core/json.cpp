#include "engine/core/json.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/core/nearest.h"
#include "tests/catch.h"

using namespace oxrse;

namespace {

std::string error_of(const std::string& text) {
  try {
    parse_json(text, "c.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string set_error(const std::string& assignment, const std::string& text = R"({"model": "tiny", "train": {"steps": 1}})") {
  JsonDocument document = parse_json(text, "c.json");
  try {
    apply_set(document, assignment);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a document knows the line of every value") {
  const JsonDocument document = parse_json(
      "{\n  // a comment\n  \"a\": 1,\n  \"list\": [10,\n    20\n    , {\"x\": /* here */\n true}],\n  \"b\": {\"c\":\n 3}}\n", "c.json");
  CHECK(document.lines ==
        std::map<std::string, int, std::less<>>{
            {"a", 3}, {"list", 4}, {"list[0]", 4}, {"list[1]", 5}, {"list[2]", 6}, {"list[2].x", 6}, {"b", 8}, {"b.c", 8}});
  CHECK(document.value.dump() == R"({"a":1,"list":[10,20,{"x":true}],"b":{"c":3}})");
  CHECK(JsonNode(document).where() == "c.json");
  CHECK(JsonNode(document).at("list").at(2).at("x").where() == "c.json:6: list[2].x");
}

TEST_CASE("values of every kind survive parsing") {
  const std::string text =
      R"({"z":null,"a":true,"m":-3,"u":18446744073709551615,"f":0.1,"e":1e5,"s":"q\"\u00fc\ud83d\ude00","l":[],"o":{}})";
  const JsonDocument document = parse_json(text, "c.json");
  CHECK(document.value == Json::parse(text));
  CHECK(document.value.dump() == Json::parse(text).dump());  // the order of the keys too
}

TEST_CASE("keys that look like paths are not taken for duplicates") {
  CHECK(parse_json(R"({"a": {"b": 1}, "a.b": 2})", "c.json").value.size() == 2);
}

TEST_CASE("bad documents name file and line") {
  CHECK(error_of("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}") == "c.json:3: a: this key is given twice (first on line 1); keep one");
  CHECK(error_of("{\"a\": {\"x\": 1,\n\"x\": 2}}") == "c.json:2: a.x: this key is given twice (first on line 1); keep one");
  CHECK_THAT(error_of("{\"a\": 1,\n\n}"), Catch::Matchers::StartsWith("c.json:3: syntax error while parsing object key"));
  CHECK_THAT(error_of("{\"a\": 1}\n{"), Catch::Matchers::StartsWith("c.json:2: syntax error"));
  CHECK_THAT(error_of("{\n\"a\": [1, 2"), Catch::Matchers::StartsWith("c.json:2: syntax error while parsing array"));
  CHECK_THAT(error_of(""), Catch::Matchers::StartsWith("c.json:1: syntax error") && Catch::Matchers::Contains("end of input"));
  CHECK_THAT(error_of("{\"a\":\n1e999}"), Catch::Matchers::StartsWith("c.json:2: number overflow"));
  CHECK_THAT(error_of("{\"a\": NaN}"), Catch::Matchers::StartsWith("c.json:1: syntax error"));
  CHECK_THAT(error_of("{\"a\": \"\xff\"}"), Catch::Matchers::StartsWith("c.json:1: syntax error"));
}

TEST_CASE("nesting has a limit") {
  CHECK_NOTHROW(parse_json(std::string(200, '[') + std::string(200, ']'), "c.json"));
  CHECK(error_of("\n" + std::string(100000, '[')) == "c.json:2: nested deeper than 200 levels");
}

TEST_CASE("files that cannot be read are named") {
  CHECK_THROWS_WITH(read_json("/nonexistent/x.json"), "/nonexistent/x.json: cannot be read: No such file or directory");
  CHECK_THROWS_WITH(read_json("/"), "/: is a directory, a JSON file is needed");

  const std::filesystem::path file = std::filesystem::temp_directory_path() / fmt::format("oxrse_json_{}.json", getpid());
  std::ofstream(file) << "{\"a\":\n 1}";
  CHECK(read_json(file).value.dump() == R"({"a":1})");
  CHECK(JsonNode(read_json(file)).has("a"));
  std::filesystem::remove(file);
}

TEST_CASE("a node says what is missing or of another kind") {
  const JsonDocument document = parse_json("{\"train\": {\"steps\": 1}, \"l\": [1]}", "c.json");
  const JsonNode root = document;
  CHECK_THROWS_WITH(root.at("train").at("lr"), "c.json:1: train: the key \"lr\" is missing");
  CHECK_THROWS_WITH(root.at("train").at("steps").at("x"), "c.json:1: train.steps: expected an object, found an integer (1)");
  CHECK_THROWS_WITH(root.at("train").at(0), "c.json:1: train: expected a list, found an object ({\"steps\":1})");
  CHECK_THROWS_WITH(root.at("l").at(1), "c.json:1: l: element 1 of a list of 1");
}

TEST_CASE("--set replaces, adds and remembers where a value came from") {
  JsonDocument document = parse_json("{\"train\": {\"steps\":\n 1}, \"data\": {\"train\": [\"a\"]}}", "c.json");
  apply_set(document, "train.steps=100");
  apply_set(document, "optimizer.lr=1e-3");
  apply_set(document, "data.train={\"source\": \"x=y\"}");
  CHECK(document.value.dump() == R"({"train":{"steps":100},"data":{"train":{"source":"x=y"}},"optimizer":{"lr":0.001}})");
  const JsonNode root = document;
  CHECK(root.at("train").at("steps").where() == "--set: train.steps");
  CHECK(root.at("train").where() == "c.json:1: train");
  CHECK(root.at("optimizer").at("lr").where() == "--set: optimizer.lr");
  CHECK(root.at("data").at("train").at("source").where() == "--set: data.train.source");
  CHECK(document.lines.count("data.train[0]") == 0);
}

TEST_CASE("--set refuses what is no assignment") {
  CHECK_THAT(set_error("train.steps"), Catch::Matchers::Contains("expected key.path=JSON"));
  CHECK_THAT(set_error("=1"), Catch::Matchers::Contains("expected key.path=JSON"));
  CHECK_THAT(set_error("train..steps=1"), Catch::Matchers::Contains("a part of the key path is empty"));
  CHECK_THAT(set_error("train.steps="), Catch::Matchers::Contains("the value (empty) is not JSON"));
  CHECK_THAT(set_error("train.steps={\"a\":1,\"a\":2}"), Catch::Matchers::Contains("is not JSON"));
  CHECK_THAT(set_error("train.steps=1e999"), !Catch::Matchers::Contains("quotes"));
  CHECK(set_error("run.name=kjv") == "--set run.name=kjv: the value kjv is not JSON; a string needs its quotes: --set 'run.name=\"kjv\"'");
  CHECK(set_error("model.layers=2") == "--set model.layers=2: model is a string (\"tiny\"), not an object; set it as a whole");
  CHECK_THAT(set_error("a=1", "[1]"), Catch::Matchers::Contains("c.json is a list"));
}

TEST_CASE("edit distance counts swaps of neighbours once") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("setps", "steps") == 1);
  CHECK(edit_distance("same", "same") == 0);
}

TEST_CASE("the nearest candidate is close or none") {
  const std::vector<std::string> keys{"lr", "warmup_steps", "weight_decay", "kind", "beta1"};
  CHECK(nearest("warmup", keys) == "warmup_steps");
  CHECK(nearest("wieght_decay", keys) == "weight_decay");
  CHECK(nearest("weight_decays", keys) == "weight_decay");
  CHECK(nearest("knd", keys) == "kind");
  CHECK(nearest("x", keys) == std::nullopt);
  CHECK(nearest("qqqqqqqq", keys) == std::nullopt);
  CHECK(nearest("", keys) == std::nullopt);
}

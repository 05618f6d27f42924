#include "engine/core/config.h"

#include "tests/catch.h"

using namespace oxrse;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

struct Optimizer {
  double lr = 1e-3;
  std::string kind = "adamw";
  double momentum = 0.9;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.lr, Field{.key = "lr", .meaning = "peak learning rate", .min = 0, .above_min = true});
    visit(self.kind, Field{.key = "kind", .meaning = "update rule", .choices = {"adamw", "sgd"}});
    visit(self.momentum, Field{.key = "momentum", .meaning = "decay of the mean gradient", .min = 0, .max = 1});
  }
};

struct Config {
  std::int64_t steps = 300;
  std::uint8_t byte = 7;
  std::uint64_t seed = 1337;
  std::int64_t offset = 0;
  bool overlap = true;
  std::optional<std::string> init;
  std::optional<Optimizer> second;
  std::vector<std::string> files;
  std::vector<std::int64_t> sizes = {1, 2};
  Json model = "tiny";
  Optimizer optimizer;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.steps, Field{.key = "steps", .meaning = "optimizer steps to take", .unit = "steps", .min = 0, .max = 1e6});
    visit(self.byte, Field{.key = "byte", .meaning = "a small number"});
    visit(self.seed, Field{.key = "seed", .meaning = "of the random numbers"});
    visit(self.offset, Field{.key = "offset", .meaning = "any integer"});
    visit(self.overlap, Field{.key = "overlap", .meaning = "send while computing"});
    visit(self.init, Field{.key = "init", .meaning = "checkpoint to start from"});
    visit(self.second, Field{.key = "second", .meaning = "another optimizer"});
    visit(self.files, Field{.key = "files", .meaning = "what to read"});
    visit(self.sizes, Field{.key = "sizes", .meaning = "how many", .min = 1});
    visit(self.model, Field{.key = "model", .meaning = "a name or an object"});
    visit(self.optimizer, Field{.key = "optimizer", .meaning = "how to update"});
  }
};

Config read(const std::string& text) {
  Config config;
  const JsonDocument document = parse_json(text, "c.json");
  read_config(document, config);
  return config;
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a config takes what is given and keeps the defaults of the rest") {
  const Config config = read(R"({"steps": 12, "overlap": false, "init": "runs/a", "files": ["a", "b"], "sizes": [], "model": {"layers": 2},
                                 "optimizer": {"lr": 1, "kind": "sgd"}, "second": {"momentum": 0.5}})");
  CHECK(config.steps == 12);
  CHECK(config.byte == 7);
  CHECK_FALSE(config.overlap);
  CHECK(config.init == "runs/a");
  CHECK(config.files == std::vector<std::string>{"a", "b"});
  CHECK(config.sizes.empty());
  CHECK(config.model == Json{{"layers", 2}});
  CHECK(config.optimizer.lr == 1.0);
  CHECK(config.optimizer.kind == "sgd");
  CHECK(config.optimizer.momentum == 0.9);
  REQUIRE(config.second);
  CHECK(config.second->momentum == 0.5);
  CHECK(config.second->lr == 1e-3);
  CHECK(read(R"({"init": null})").init == std::nullopt);
}

TEST_CASE("integers: integral floats are accepted, everything else is refused") {
  CHECK(read(R"({"steps": 1e5})").steps == 100000);
  CHECK(read(R"({"steps": 300.0})").steps == 300);
  CHECK(read(R"({"steps": 1e6})").steps == 1000000);
  CHECK(read(R"({"byte": 255})").byte == 255);
  CHECK(read(R"({"seed": 9223372036854775807})").seed == 9223372036854775807U);
  CHECK(error_of(R"({"steps": 300.5})") == "c.json:1: steps: expected an integer, found 300.5");
  CHECK(error_of(R"({"seed": -1})") == "c.json:1: seed: -1 is out of range: must be at least 0 and at most 9223372036854775807");
  CHECK_THAT(error_of(R"({"offset": 1e19})"), Contains("at least -9223372036854775808 and at most 9223372036854775807"));
  CHECK(error_of("{\n\"steps\": -1}") == "c.json:2: steps: -1 is out of range: must be at least 0 and at most 1000000 steps");
  CHECK_THAT(error_of(R"({"steps": 1000001})"), Contains("1000001 is out of range"));
  CHECK(error_of(R"({"byte": 300})") == "c.json:1: byte: 300 is out of range: must be at least 0 and at most 255");
  CHECK(error_of(R"({"byte": -1})") == "c.json:1: byte: -1 is out of range: must be at least 0 and at most 255");
  CHECK_THAT(error_of(R"({"byte": 1e300})"), Contains("out of range"));
  CHECK_THAT(error_of(R"({"seed": -1})"), Contains("-1 is out of range: must be at least 0"));
  CHECK_THAT(error_of(R"({"seed": 9223372036854775808})"), Contains("out of range"));
  CHECK_THAT(error_of(R"({"seed": 18446744073709551615})"), Contains("out of range"));
  CHECK_THAT(error_of(R"({"seed": 1e19})"), Contains("out of range"));
  CHECK_THAT(error_of(R"({"sizes": [3, 0]})"), StartsWith("c.json:1: sizes[1]: 0 is out of range: must be at least 1"));
}

TEST_CASE("numbers must be in their range and finite") {
  CHECK(error_of(R"({"optimizer": {"lr": 0}})") == "c.json:1: optimizer.lr: 0 is out of range: must be above 0");
  CHECK(error_of(R"({"optimizer": {"momentum": 1.5}})") ==
        "c.json:1: optimizer.momentum: 1.5 is out of range: must be at least 0 and at most 1");
  CHECK_THAT(error_of(R"({"optimizer": {"lr": 1e999}})"), Contains("number overflow"));
  JsonDocument document = parse_json("{}", "built");
  document.value["optimizer"]["lr"] = std::numeric_limits<double>::quiet_NaN();
  Config config;
  CHECK_THROWS_WITH(read_config(document, config), Contains("expected a finite number"));
}

TEST_CASE("wrong types name what was expected and found") {
  CHECK(error_of(R"({"steps": "12"})") == "c.json:1: steps: expected an integer, found a string (\"12\")");
  CHECK(error_of(R"({"steps": null})") == "c.json:1: steps: expected an integer, found null (null)");
  CHECK(error_of(R"({"overlap": 1})") == "c.json:1: overlap: expected true or false, found an integer (1)");
  CHECK(error_of(R"({"optimizer": {"lr": true}})") == "c.json:1: optimizer.lr: expected a number, found a boolean (true)");
  CHECK(error_of(R"({"optimizer": 3})") == "c.json:1: optimizer: expected an object, found an integer (3)");
  CHECK(error_of(R"({"files": "a"})") == "c.json:1: files: expected a list, found a string (\"a\")");
  CHECK(error_of("{\"files\": [\"a\",\n 3]}") == "c.json:2: files[1]: expected a string, found an integer (3)");
  CHECK(error_of(R"({"init": 3})") == "c.json:1: init: expected a string, found an integer (3)");
  CHECK(error_of("[1]") == "c.json: expected an object, found a list ([1])");
}

TEST_CASE("unknown keys and choices name the nearest known one") {
  CHECK(error_of("{\"optimizer\":\n {\"knd\": 1}}") ==
        "c.json:2: optimizer.knd: unknown key; did you mean \"kind\"? Known keys here: lr, kind, momentum");
  CHECK(error_of(R"({"optimizer": {"zzzzz": 1}})") == "c.json:1: optimizer.zzzzz: unknown key. Known keys here: lr, kind, momentum");
  CHECK_THAT(error_of(R"({"stesp": 1})"), StartsWith("c.json:1: stesp: unknown key; did you mean \"steps\"?"));
  CHECK(error_of(R"({"optimizer": {"kind": "adam"}})") ==
        "c.json:1: optimizer.kind: \"adam\" is not one of the choices; did you mean \"adamw\"? Allowed: \"adamw\", \"sgd\"");
  CHECK(error_of(R"({"optimizer": {"kind": "muon"}})") ==
        "c.json:1: optimizer.kind: \"muon\" is not one of the choices. Allowed: \"adamw\", \"sgd\"");
  CHECK_THAT(error_of(R"({"second": {"lrr": 1}})"), StartsWith("c.json:1: second.lrr: unknown key; did you mean \"lr\"?"));
}

TEST_CASE("an error leaves the section as it was") {
  Config config;
  const JsonDocument document = parse_json(R"({"steps": 5, "byte": -1})", "c.json");
  CHECK_THROWS_AS(read_config(document, config), Error);
  CHECK(config.steps == 300);
}

TEST_CASE("what --set changed is named so") {
  JsonDocument document = parse_json("{}", "c.json");
  apply_set(document, "optimizer.kind=\"adam\"");
  Config config;
  CHECK_THROWS_WITH(read_config(document, config), StartsWith("--set: optimizer.kind: \"adam\" is not one of the choices"));
}

TEST_CASE("the echo has every key and reads back as the same config") {
  const Config config = read(R"({"steps": 9, "second": {"lr": 0.5}, "init": "x", "optimizer": {"lr": 0.1}})");
  const Json echo = write_config(config);
  CHECK(
      echo.dump() ==
      R"({"steps":9,"byte":7,"seed":1337,"offset":0,"overlap":true,"init":"x","second":{"lr":0.5,"kind":"adamw","momentum":0.9},"files":[],)"
      R"("sizes":[1,2],"model":"tiny","optimizer":{"lr":0.1,"kind":"adamw","momentum":0.9}})");
  CHECK(config_differences(config, read(echo.dump())).empty());
  CHECK(write_config(Config())["second"].is_null());
}

TEST_CASE("help names path, meaning, range, unit, choices and default of every key") {
  const std::string help = config_help(Config());
  CHECK_THAT(help, Contains("steps               optimizer steps to take\n                    integer at least 0 and at most 1000000, in "
                            "steps; default 300\n"));
  CHECK_THAT(help, Contains("optimizer.lr        peak learning rate\n                    number above 0; default 0.001\n"));
  CHECK_THAT(help, Contains("one of \"adamw\", \"sgd\"; default \"adamw\""));
  CHECK_THAT(help, Contains("second.momentum"));
  CHECK_THAT(help, Contains("boolean; default true"));
}

TEST_CASE("differences name the path and both values") {
  Config a;
  Config b;
  CHECK(config_differences(a, b).empty());
  b.steps = 301;
  b.optimizer.kind = "sgd";
  b.second.emplace();
  CHECK(config_differences(a, b) == std::vector<std::string>{"steps: 300 -> 301",
                                                             "second: null -> {\"lr\":0.001,\"kind\":\"adamw\",\"momentum\":0.9}",
                                                             "optimizer.kind: \"adamw\" -> \"sgd\""});
  CHECK(config_differences(Json{{"x", 1}}, Json{{"y", 2}}) == std::vector<std::string>{"x: 1 -> (absent)", "y: (absent) -> 2"});
  CHECK(config_differences(Json{{"x", 1}}, Json{{"x", 1.0}}).empty());
}

#include "engine/train/config.h"

#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::train;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

Json small_config() {
  const JsonDocument document =
      parse_json(R"({"model": {"layers": 1, "width": 8, "heads": 2, "vocab": 16}, "data": {"train": "x"}})", "test");
  return write_config(load_config(document));
}

}  // namespace

TEST_CASE("a config from before a key existed goes on under the key's default", "[config]") {
  const Json now = small_config();
  Json before = now;
  before["model"].erase("qk_norm");
  before["precision"].erase("stochastic_rounding");
  before.erase("comm");
  CHECK(incompatibilities(before, now).empty());
  Json changed = now;
  changed["model"]["qk_norm"] = true;
  REQUIRE(incompatibilities(before, changed).size() == 1);
  CHECK_THAT(incompatibilities(before, changed).front(), StartsWith("model.qk_norm"));
}

TEST_CASE("steps, logging and checkpoints may change on resume, what trains may not", "[config]") {
  const Json before = small_config();
  Json now = before;
  now["train"]["steps"] = 7;
  now["checkpoint"]["every"] = 3;
  now["log"]["every"] = 2;
  now["run"]["device"] = "cuda-emulated";
  CHECK(incompatibilities(before, now).empty());
  now["optimizer"]["lr"] = 0.5;
  now["run"]["seed"] = 3;
  CHECK(incompatibilities(before, now).size() == 2);
}

TEST_CASE("a model that the zoo does not have is refused with the key", "[config]") {
  const auto load = [](const std::string& model) { load_config(parse_json("{\n\"model\": \"" + model + "\"}", "c.json")); };
  CHECK_THROWS_WITH(load(""), StartsWith("c.json:2: model: \"\" is not in the model zoo") && Contains("gpt2/124m"));
  CHECK_THROWS_WITH(load("gpt2/142m"), StartsWith("c.json:2: model: ") && Contains("did you mean \"gpt2/124m\"?"));
}

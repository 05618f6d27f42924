#include "io/model_zoo.h"

#include <cstdlib>
#include <fstream>

#include "tests/catch.h"
#include "tests/io/temporary.h"

using namespace oxrse;
using Catch::Matchers::Contains;

namespace {

/// The zoo is `path` while this lives.
class ZooAt {
 public:
  explicit ZooAt(const std::string& path) { setenv("OXRSE_MODEL_ZOO", path.c_str(), 1); }
  ~ZooAt() { unsetenv("OXRSE_MODEL_ZOO"); }
  ZooAt(const ZooAt&) = delete;
  ZooAt& operator=(const ZooAt&) = delete;
};

}  // namespace

TEST_CASE("every entry of the model zoo is strict JSON with an object") {
  for (const std::string kind : {"models", "recipes", "hf"}) {
    for (const std::string& name : io::model_zoo_entries(kind)) {
      INFO(kind << "/" << name);
      CHECK(io::read_model_zoo(kind, name).value.is_object());
    }
  }
  CHECK(io::model_zoo_entries("models").size() >= 15);
}

TEST_CASE("an entry is found by its name and knows its lines") {
  const JsonDocument document = io::read_model_zoo("models", "gpt2/124m");
  const JsonNode root = document;
  CHECK(root.at("layers").value() == 12);
  CHECK_THAT(root.at("layers").where(), Contains("gpt2/124m.json:3: layers"));
}

TEST_CASE("a mistyped name gets the nearest entries") {
  CHECK_THROWS_WITH(io::read_model_zoo("models", "gpt2/142m"),
                    Contains("\"gpt2/142m\" is not in the model zoo; did you mean \"gpt2/124m\"?") && Contains("llama/8b"));
  CHECK_THROWS_WITH(io::read_model_zoo("models", "../recipes/tiny"), Contains("is not in the model zoo"));
  CHECK_THROWS_WITH(io::read_model_zoo("models", ""), Contains("\"\" is not in the model zoo"));
}

TEST_CASE("OXRSE_MODEL_ZOO names another zoo") {
  const io::TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "models/own");
  std::ofstream(directory / "models/own/small.json") << R"({"layers": 1})";
  const ZooAt zoo(directory.path());
  CHECK(io::model_zoo_entries("models") == std::vector<std::string>{"own/small"});
  CHECK(io::read_model_zoo("models", "own/small").value["layers"] == 1);
  CHECK(io::model_zoo_entries("recipes").empty());
  const ZooAt missing(directory / "missing");
  CHECK_THROWS_WITH(io::model_zoo(), Contains("no such directory"));
}

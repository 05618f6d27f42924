#include "tests/tools/includes.h"

#include <fmt/ranges.h>

#include <fstream>

#include "tests/catch.h"
#include "tests/io/temporary.h"

using namespace oxrse;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

/// The complaints about a tree with this one file.
std::vector<std::string> complaints(const std::string& file, const std::string& text) {
  const io::TemporaryDirectory tree;
  write(tree / file, text);
  return test::wrong_includes(tree.path());
}

}  // namespace

TEST_CASE("every include of the project goes downhill") {
  const auto wrong = test::wrong_includes(OXRSE_SOURCE_DIR);
  INFO(fmt::format("{}", fmt::join(wrong, "\n")));
  CHECK(wrong.empty());
}

TEST_CASE("a tree of good includes has no complaints") {
  const io::TemporaryDirectory tree;
  write(tree / "engine/core/a.h", "#include <vector>\n#include \"engine/core/b.h\"\n");
  write(tree / "engine/cpu/a.cpp", "#include \"engine/ops/a.h\"\n#include \"engine/core/a.h\"\n");
  write(tree / "cuda/kernels/a.cu", "#include \"engine/ops/a.h\"\n#include \"cuda/runtime/a.h\"\n");
  write(tree / "engine/nn/a.cpp", "#include \"engine/cpu/a.h\"\n");
  write(tree / "engine/parallel/a.cpp", "#include \"comm/a.h\"\n#include \"engine/nn/a.h\"\n");
  write(tree / "engine/train/a.cpp", "#include \"io/a.h\"\n#include \"engine/optim/a.h\"\n#include \"engine/parallel/a.h\"\n");
  write(tree / "tests/a.cpp", "#include \"tools/a.h\"\n#include \"tests/catch.h\"\n");
  write(tree / "benchmarks/a.cpp", "#include \"cuda/a.h\"\n");
  write(tree / "build/engine/core/a.cpp", "#include \"tools/a.h\"\n");
  write(tree / "docs/a.md", "#include \"tools/a.h\"\n");
  CHECK(test::wrong_includes(tree.path()).empty());
}

TEST_CASE("an upward include is named with file, line and rooms") {
  const auto wrong = complaints("engine/ops/linear.cpp", "#include <vector>\n\n  #  include \"engine/nn/linear.h\"\n");
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0] == "engine/ops/linear.cpp:3: engine/ops must not include engine/nn/linear.h (allowed: engine/core, engine/ops)");
}

TEST_CASE("every arrow holds") {
  const std::vector<std::pair<std::string, std::string>> upward = {
      {"engine/core/a.cpp", "engine/ops/a.h"},
      {"engine/core/a.cpp", "io/a.h"},
      {"engine/core/a.cpp", "comm/a.h"},
      {"engine/cpu/a.cpp", "engine/nn/a.h"},
      {"engine/cpu/a.cpp", "cuda/a.h"},
      {"engine/nn/a.cpp", "cuda/a.h"},
      {"engine/nn/a.cpp", "io/a.h"},
      {"engine/nn/a.cpp", "engine/optim/a.h"},
      {"engine/optim/a.cpp", "engine/parallel/a.h"},
      {"engine/optim/a.cpp", "engine/train/a.h"},
      {"engine/parallel/a.cpp", "io/a.h"},
      {"engine/train/a.cpp", "cuda/a.h"},
      {"engine/train/a.cpp", "tools/a.h"},
      {"comm/a.cpp", "engine/ops/a.h"},
      {"io/a.cpp", "engine/nn/a.h"},
      {"io/data/a.cpp", "comm/a.h"},
      {"cuda/a.cu", "engine/cpu/a.h"},
      {"cuda/a.cuh", "engine/nn/a.h"},
      {"tools/a.cpp", "tests/a.h"},
      {"benchmarks/a.cpp", "tools/a.h"},
      {"engine/train/a.h", "tests/a.h"},
  };
  for (const auto& [file, include] : upward) {
    INFO(file << " includes " << include);
    CHECK(complaints(file, "#include \"" + include + "\"\n").size() == 1);
  }
}

TEST_CASE("includes that are not from the root and rooms nobody knows are refused") {
  CHECK_THAT(complaints("engine/nn/a.cpp", "#include \"a.h\"\n").at(0), Catch::Matchers::Contains("a.h is not a path from the root"));
  CHECK_THAT(complaints("engine/nn/a.cpp", "#include \"../cpu/a.h\"\n").at(0), Catch::Matchers::Contains("is not a path from the root"));
  CHECK_THAT(complaints("engine/attic/a.cpp", "int x;\n").at(0), Catch::Matchers::Contains("is in no room of the architecture"));
}

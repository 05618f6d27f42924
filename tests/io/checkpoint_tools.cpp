#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "tests/catch.h"
#include "tests/io/checkpoint_fixture.h"

namespace oxrse::io {
namespace {

std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  REQUIRE(::pclose(pipe) == 0);
  return output;
}

/// The values h5dump prints for a dataset.
std::vector<double> dumped(const std::filesystem::path& file, const std::string& dataset) {
  std::string text = output_of("h5dump -y -w 1 -m %.9g -d '" + dataset + "' " + file.string());
  text = text.substr(text.find("DATA {") + 6);
  std::istringstream lines(text.substr(0, text.find('}')));
  std::vector<double> values;
  for (std::string word; lines >> word;) values.push_back(std::strtod(word.c_str(), nullptr));
  return values;
}

TEST_CASE("h5dump prints the values, in 16 bits too") {
  if (std::system("command -v h5dump >/dev/null 2>&1") != 0) {
    WARN("h5dump is not installed: not compared with it");
    return;
  }
  const TemporaryDirectory dir;
  const SmallState saved(3);
  saved.save(dir.path());
  const auto shard = dir / "step_0000000003" / "shard_r00000.h5";
  for (const CheckpointEntry& entry : saved.entries) {
    if (entry.tensor.count() == 0) continue;
    const std::string dataset = entry.part == "model" ? "/model/" + entry.name : "/optim/" + entry.name + "/" + entry.part;
    CAPTURE(dataset);
    const std::vector<double> values = dumped(shard, dataset);
    REQUIRE(static_cast<std::int64_t>(values.size()) == entry.tensor.count());
    visit_floating(entry.tensor.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* truth = entry.tensor.template data<T>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (i == 1) continue;  // NaN
        CHECK(values[i] == Approx(static_cast<double>(static_cast<float>(truth[i]))).epsilon(1e-8));
      }
    });
  }
  CHECK(output_of("h5dump -d /meta/config " + shard.string()).find("1337") != std::string::npos);
}

}  // namespace
}  // namespace oxrse::io

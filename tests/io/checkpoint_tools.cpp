#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "io/checkpoint/compare.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_fixture.h"

namespace oxrse::io {
namespace {

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

TEST_CASE("two checkpoints are compared tensor by tensor") {
  const TemporaryDirectory dir;
  const SmallState a(1);
  SmallState b(1);
  const float nearby = 1.1F + 0.25F;  // the first element was 1.1
  std::memcpy(b.memory[0].data(), &nearby, sizeof nearby);
  b.entries.pop_back();
  b.entries.push_back({"extra", "model", a.entries.front().tensor});
  b.entries[2].tensor = ConstTensor(b.memory[2].data(), DType::F64, {7, 1});
  a.save(dir / "a");
  b.save(dir / "b");
  Warnings warnings;
  const Checkpoint first = Checkpoint::open(dir / "a", warnings.sink()), second = Checkpoint::open(dir / "b", warnings.sink());
  CHECK(compare(first, first).empty());
  const auto differences = compare(first, second);
  REQUIRE(differences.size() == 4);
  CHECK(differences[0].label == "blocks.0.w (master)");
  CHECK(differences[0].different == 1);
  CHECK(differences[0].count == 15);
  CHECK(differences[0].largest == Approx(0.25));
  CHECK(differences[1].structure == "(7) and (7, 1)");
  CHECK(differences[2].structure == "only in A");
  CHECK(differences[3].label == "extra (model)");
  CHECK(differences[3].structure == "only in B");
}

TEST_CASE("all checkpoints of a run are listed for verification") {
  const TemporaryDirectory dir;
  SmallState(2).save(dir / "checkpoints");
  SmallState(10).save(dir / "checkpoints");
  CHECK(step_directories_in(dir.path()).size() == 2);
  CHECK(step_directories_in(dir / "checkpoints" / "step_0000000010").size() == 1);
  CHECK(Checkpoint::open_unverified(dir.path()).step() == 10);
}

}  // namespace
}  // namespace oxrse::io

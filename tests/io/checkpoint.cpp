#include "io/checkpoint/checkpoint.h"

#include <cmath>
#include <limits>

#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_fixture.h"

namespace oxrse::io {
namespace {

using Catch::Contains;

TEST_CASE("what was saved is read back bit for bit") {
  const TemporaryDirectory dir;
  const SmallState saved(200);
  saved.save(dir.path());
  Warnings warnings;
  const Checkpoint checkpoint = Checkpoint::open(dir.path(), warnings.sink());
  CHECK(warnings.texts.empty());
  CHECK(checkpoint.step() == 200);
  CHECK(checkpoint.config() == saved.state.config);
  CHECK(checkpoint.state() == saved.state.state);
  CHECK(checkpoint.tokenizer_json() == saved.state.tokenizer_json);
  CHECK(checkpoint.tensors().size() == saved.entries.size());
  for (const CheckpointEntry& entry : saved.entries) {
    CAPTURE(entry.name, entry.part);
    CHECK(read_bytes(checkpoint, entry) == bytes_of(entry.tensor));
  }
}

TEST_CASE("a checkpoint is found from its step, checkpoints and run directories") {
  const TemporaryDirectory dir;
  const auto checkpoints = dir / "checkpoints";
  SmallState(7).save(checkpoints);
  Warnings warnings;
  for (const auto& path : {dir.path(), checkpoints, checkpoints / "step_0000000007"}) {
    CHECK(holds_checkpoint(path));
    CHECK(Checkpoint::open(path, warnings.sink()).step() == 7);
  }
  CHECK(read_file(checkpoints / "LATEST") == "step_0000000007\n");
  CHECK(warnings.texts.empty());
  CHECK_FALSE(holds_checkpoint(dir / "elsewhere"));
  CHECK_THROWS_WITH(Checkpoint::open(dir / "elsewhere", warnings.sink()), Contains("elsewhere does not exist"));
}

TEST_CASE("a directory without checkpoints says so") {
  const TemporaryDirectory dir;
  Warnings warnings;
  CHECK_FALSE(holds_checkpoint(dir.path()));
  CHECK_THROWS_WITH(Checkpoint::open(dir.path(), warnings.sink()), Contains("holds no checkpoint"));
}

TEST_CASE("tensors convert between float types when read") {
  const TemporaryDirectory dir;
  const SmallState saved(1);
  saved.save(dir.path());
  Warnings warnings;
  const Checkpoint checkpoint = Checkpoint::open(dir.path(), warnings.sink());
  std::vector<double> wide(15);
  checkpoint.read("blocks.0.w", "master", Tensor(reinterpret_cast<std::byte*>(wide.data()), DType::F64, {3, 5}));
  std::vector<bf16> narrow(15);
  checkpoint.read("blocks.0.w", "master", Tensor(reinterpret_cast<std::byte*>(narrow.data()), DType::BF16, {3, 5}));
  const auto* truth = saved.entries.front().tensor.data<float>();
  for (std::size_t i = 0; i < wide.size(); ++i) {
    CHECK((wide[i] == static_cast<double>(truth[i]) || (std::isnan(wide[i]) && std::isnan(truth[i]))));
    CHECK(narrow[i].bits == bf16(truth[i]).bits);
  }
}

TEST_CASE("a tensor of another shape is refused with its name and both shapes", "[C9]") {
  const TemporaryDirectory dir;
  SmallState(1).save(dir.path());
  Warnings warnings;
  const Checkpoint checkpoint = Checkpoint::open(dir.path(), warnings.sink());
  std::vector<float> memory(20);
  const Tensor out(reinterpret_cast<std::byte*>(memory.data()), DType::F32, {4, 5});
  CHECK_THROWS_WITH(checkpoint.read("blocks.0.w", "master", out),
                    Contains("blocks.0.w (master)") && Contains("(3, 5)") && Contains("(4, 5)"));
  CHECK_THROWS_WITH(checkpoint.read("blocks.9.w", "master", out), Contains("no tensor blocks.9.w (master)"));
}

TEST_CASE("what cannot be saved is refused before anything is written") {
  const TemporaryDirectory dir;
  SmallState twice(1);
  twice.entries.push_back(twice.entries.front());
  CHECK_THROWS_WITH(twice.save(dir.path()), Contains("two tensors to save are called blocks.0.w"));
  SmallState slash(1);
  slash.entries.front().name = "a/b";
  CHECK_THROWS_WITH(slash.save(dir.path()), Contains("'a/b'"));
  SmallState strided(1);
  strided.entries.front().tensor = strided.entries.front().tensor.slice(1, 0, 2);
  CHECK_THROWS_WITH(strided.save(dir.path()), Contains("blocks.0.w"));
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("tensors can be made while they are written") {
  const TemporaryDirectory a, b;
  const SmallState whole(3);
  whole.save(a.path());
  SmallState made(3);
  for (std::size_t i = 0; i < made.entries.size(); ++i) {
    CheckpointEntry& entry = made.entries[i];
    const ConstTensor source = entry.tensor;
    entry.tensor = ConstTensor(nullptr, source.dtype(), source.sizes());
    entry.fill = [source](const Tensor& out) { std::copy_n(source.address(), source.bytes(), out.address()); };
  }
  made.save(b.path());
  CHECK(read_file(a / "step_0000000003" / "shard_r00000.h5") == read_file(b / "step_0000000003" / "shard_r00000.h5"));
}

TEST_CASE("equal states make equal files") {
  const TemporaryDirectory a, b;
  SmallState(3).save(a.path());
  SmallState(3).save(b.path());
  CHECK(read_file(a / "step_0000000003" / "shard_r00000.h5") == read_file(b / "step_0000000003" / "shard_r00000.h5"));
}

}  // namespace
}  // namespace oxrse::io

// Compressed, incremental and weights-only checkpoints.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_ranks.h"

namespace oxrse::io {
namespace {

using Catch::Contains;

constexpr std::int64_t kLarge = 600'000;  // two chunks and a bit

void save(const std::filesystem::path& checkpoints, const SmallState& state, const SaveOptions& options, std::int64_t keep = 0) {
  save_checkpoint(
      checkpoints, state.state, state.entries, keep, [](const std::string& text) { fail("unexpected warning: {}", text); }, options);
}

void check_equal(const std::filesystem::path& path, const SmallState& truth) {
  Warnings warnings;
  const Checkpoint checkpoint = Checkpoint::open(path, warnings.sink());
  CHECK(warnings.texts.empty());
  for (const CheckpointEntry& entry : truth.entries) {
    CAPTURE(entry.label());
    CHECK(read_bytes(checkpoint, entry) == bytes_of(entry.tensor));
  }
}

std::filesystem::path shard_of(std::int64_t step) { return std::filesystem::path(step_name(step)) / shard_name(0); }

void flip(const std::filesystem::path& path, std::size_t place) {
  std::string contents = read_file(path);
  contents[place] = static_cast<char>(contents[place] ^ 0x10);
  put(path, contents);
}

TEST_CASE("compressed checkpoints hold the same tensors in fewer bytes") {
  const TemporaryDirectory plain, small;
  const SmallState truth(1, kLarge);
  save(plain.path(), truth, {});
  save(small.path(), truth, {.compress = true});
  check_equal(small.path(), truth);
  CHECK(std::filesystem::file_size(small / shard_of(1)) < std::filesystem::file_size(plain / shard_of(1)) * 4 / 5);
  const auto tensors = read_manifest(small / step_name(1)).tensors;
  CHECK(std::count_if(tensors.begin(), tensors.end(), [](const StoredTensor& t) { return t.pieces.front().compressed; }) == 1);
  // A part of a compressed tensor, in another type.
  std::vector<double> part(1000);
  Warnings warnings;
  Checkpoint::open(small.path(), warnings.sink())
      .read("large", "master", Placement{{kLarge}, {{300'000}, {1000}, false}},
            Tensor(reinterpret_cast<std::byte*>(part.data()), DType::F64, {1000}));
  const auto* all = truth.entries.back().tensor.data<float>();
  for (std::size_t i = 0; i < part.size(); ++i) CHECK(part[i] == static_cast<double>(all[300'000 + i]));
}

TEST_CASE("damage in compressed tensors is found") {
  const TemporaryDirectory dir;
  save(dir.path(), SmallState(100, kLarge), {.compress = true});
  save(dir.path(), SmallState(200, kLarge), {.compress = true});
  const auto path = dir / shard_of(200);
  const auto size = static_cast<std::size_t>(std::filesystem::file_size(path));
  for (std::size_t i = 1; i < 10; ++i) {
    const std::size_t place = size / 10 * i;
    CAPTURE(place);
    flip(path, place);
    REQUIRE(damage_of(dir / step_name(200)).size() == 1);
    Warnings warnings;
    std::int64_t loaded = 0;
    Checkpoint::load(dir.path(), warnings.sink(), Need::Everything, [&](const Checkpoint& checkpoint) {
      for (const CheckpointEntry& entry : SmallState(100, kLarge).entries) read_bytes(checkpoint, entry);
      loaded = checkpoint.step();
    });
    CHECK(loaded == 100);
    REQUIRE_FALSE(warnings.texts.empty());
    CHECK_THAT(warnings.texts.front(), Contains(path.string()));
    flip(path, place);
  }
}

TEST_CASE("h5dump reads compressed and linked tensors") {
  if (std::system("command -v h5dump >/dev/null 2>&1") != 0) {
    WARN("h5dump is not installed: not compared with it");
    return;
  }
  const TemporaryDirectory dir;
  SmallState truth(1, 1200);
  save(dir.path(), truth, {.compress = true});
  truth.state.step = 2;
  save(dir.path(), truth, {.compress = true, .incremental = true});
  const auto values = [&](std::int64_t step) {
    const std::string text = output_of("h5dump -y -m %.9g -d /optim/large/master " + (dir / shard_of(step)).string());
    return text.substr(text.find("DATA {"));
  };
  CHECK_THAT(output_of("h5dump -p -H -d /optim/large/master " + (dir / shard_of(1)).string()), Contains("DEFLATE") && Contains("SHUFFLE"));
  // The last value is 1.6 + 0.37 * 1199.
  for (const std::int64_t step : {1, 2}) CHECK(values(step).find("445.230011") != std::string::npos);
}

TEST_CASE("what has not changed is linked to and survives the checkpoint it came from") {
  const TemporaryDirectory dir;
  SmallState state(1, kLarge);
  const SaveOptions incremental{.incremental = true};
  save(dir.path(), state, incremental);
  const auto whole_size = std::filesystem::file_size(dir / shard_of(1));
  for (std::int64_t step = 2; step <= 5; ++step) {
    state.state.step = step;
    const auto changed = static_cast<float>(step);
    std::memcpy(state.memory[0].data(), &changed, sizeof changed);
    save(dir.path(), state, incremental, 1);  // the one before is removed
    CHECK(step_directories_in(dir.path()).size() == 1);
    check_equal(dir.path(), state);
    CHECK(damage_of(dir / step_name(step)).empty());
    CHECK(std::filesystem::file_size(dir / shard_of(step)) < whole_size / 10);
    CHECK(std::filesystem::exists(dir / step_name(step) / "step_0000000001_shard_r00000.h5"));
  }
  // Nothing is left of the linked file when nothing refers to it.
  state.memory.back().back() ^= std::byte{1};
  for (auto& memory : state.memory) {
    if (!memory.empty()) memory[0] ^= std::byte{1};
  }
  state.state.step = 6;
  save(dir.path(), state, incremental, 1);
  CHECK(!std::filesystem::exists(dir / step_name(6) / "step_0000000001_shard_r00000.h5"));
  check_equal(dir.path(), state);
}

TEST_CASE("damaged bytes are not linked to, they are written again") {
  const TemporaryDirectory dir;
  SmallState state(1, kLarge);
  save(dir.path(), state, {});
  const Manifest manifest = read_manifest(dir / step_name(1));
  flip(dir / shard_of(1), static_cast<std::size_t>(manifest.tensors.back().pieces.front().position + 77));
  state.state.step = 2;
  save(dir.path(), state, {.incremental = true}, 1);
  check_equal(dir.path(), state);
}

TEST_CASE("ranks link to what they wrote before") {
  const TemporaryDirectory dir;
  SmallState state(1, kLarge);
  const EntriesOf shares = [&](std::int64_t rank, std::int64_t n) {
    return rank < n ? std::vector<CheckpointEntry>{state.entries[static_cast<std::size_t>(rank)]} : std::vector<CheckpointEntry>();
  };
  save_by(dir.path(), state.state, 3, shares);
  state.state.step = 2;
  state.memory[1][0] ^= std::byte{1};  // of rank 1
  const auto base = base_for_links(dir.path());
  REQUIRE(base.has_value());
  const auto directory = begin_save(dir.path(), 2);
  std::vector<ShardSummary> summaries;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    summaries.push_back(write_shard(directory, {rank, 3}, state.state, shares(rank, 3), {.base = &*base}));
  }
  Warnings warnings;
  commit_save(dir.path(), state.state, summaries, 1, warnings.sink());
  const Manifest manifest = read_manifest(dir / step_name(2));
  CHECK(manifest.world == 3);
  CHECK(manifest.files.size() == 5);
  const Checkpoint checkpoint = Checkpoint::open(dir.path(), warnings.sink());
  for (std::size_t i = 0; i < 3; ++i) CHECK(read_bytes(checkpoint, state.entries[i]) == bytes_of(state.entries[i].tensor));
}

TEST_CASE("a run goes on from the last complete checkpoint, evaluation takes the last weights") {
  const TemporaryDirectory dir;
  SmallState complete(100), weights(200);
  weights.state.weights_only = true;
  weights.save(dir.path());
  CHECK(holds_checkpoint(dir.path()));
  CHECK_FALSE(holds_checkpoint(dir.path(), Need::Everything));
  Warnings warnings;
  CHECK_THROWS_WITH(Checkpoint::open(dir.path(), warnings.sink(), Need::Everything), Contains("no complete checkpoint"));
  complete.save(dir.path());
  SmallState later(300);
  later.state.weights_only = true;
  later.save(dir.path());
  CHECK(Checkpoint::open(dir.path(), warnings.sink()).step() == 300);
  CHECK(Checkpoint::open(dir.path(), warnings.sink(), Need::Everything).step() == 100);
  CHECK_THROWS_WITH(Checkpoint::open(dir / step_name(300), warnings.sink(), Need::Everything), Contains("weights only"));
}

TEST_CASE("everything takes the place of the weights that were saved just before it, not of those of another run") {
  const TemporaryDirectory dir;
  SmallState weights(7), complete(7), other(7);
  weights.state.weights_only = true;
  weights.save(dir.path());
  complete.save(dir.path());  // warns of nothing
  CHECK(directories_set_aside(dir.path()).empty());
  check_equal(dir.path(), complete);
  std::filesystem::remove_all(dir / step_name(7));
  weights.save(dir.path());
  other.state.config["run"]["seed"] = 1;
  Warnings warnings;
  save_checkpoint(dir.path(), other.state, other.entries, 0, warnings.sink());
  CHECK(directories_set_aside(dir.path()).size() == 1);
  CHECK(warnings.texts.size() == 1);
}

TEST_CASE("weights-only checkpoints do not push complete ones out") {
  const TemporaryDirectory dir;
  for (std::int64_t step = 1; step <= 12; ++step) {
    SmallState state(step);
    state.state.weights_only = step % 5 != 0;
    state.save(dir.path(), 2);
  }
  std::vector<std::string> names;
  for (const auto& path : step_directories_in(dir.path())) names.push_back(path.filename().string());
  CHECK(names == std::vector<std::string>{step_name(5), step_name(10), step_name(11), step_name(12)});
}

}  // namespace
}  // namespace oxrse::io

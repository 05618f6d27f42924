#include <sys/resource.h>

#include <algorithm>

#include "io/checkpoint/share.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_ranks.h"

namespace oxrse::io {
namespace {

using Catch::Contains;

const std::vector<std::pair<const char*, Layout>> kLayouts = {{"zero", zero_layout}, {"rows", row_layout}, {"columns", column_layout}};

void check_whole(const std::filesystem::path& path, const SmallState& truth) {
  Warnings warnings;
  const Checkpoint checkpoint = Checkpoint::open(path, warnings.sink());
  CHECK(warnings.texts.empty());
  CHECK(checkpoint.state() == truth.state.state);
  CHECK(checkpoint.tokenizer_json() == truth.state.tokenizer_json);
  CHECK(checkpoint.tensors().size() == truth.entries.size());
  for (const CheckpointEntry& entry : truth.entries) {
    CAPTURE(entry.label());
    CHECK(read_bytes(checkpoint, entry) == bytes_of(entry.tensor));
  }
}

std::string shard(std::int64_t step, std::int64_t rank) { return step_name(step) + "/" + shard_name(rank); }

TEST_CASE("replicated tensors are written by all ranks together") {
  const SmallState truth(5, 1001);
  for (const std::int64_t ranks : {1, 2, 3, 8}) {
    CAPTURE(ranks);
    const TemporaryDirectory dir;
    save_by(dir.path(), truth.state, ranks, [&](std::int64_t rank, std::int64_t n) { return share_of(truth.entries, {rank, n}); });
    check_whole(dir.path(), truth);
    CHECK(read_manifest(dir / step_name(5)).files.size() == static_cast<std::size_t>(ranks));
  }
}

TEST_CASE("any layout loads what any layout saved", "[C6][C7]") {
  const SmallState truth(7, 501);
  for (const auto& [saved_name, saved] : kLayouts) {
    for (const std::int64_t ranks : {2, 4, 7}) {  // (7) and (0, 5) over 4 and 7: odd and empty parts
      const TemporaryDirectory dir;
      std::vector<RankState> parts;
      save_by(dir.path(), truth.state, ranks, parts_of(truth, saved, parts));
      check_whole(dir.path(), truth);
      Warnings warnings;
      const Checkpoint checkpoint = Checkpoint::open(dir.path(), warnings.sink());
      for (const auto& [loaded_name, loaded] : kLayouts) {
        for (const std::int64_t others : {1, 3, 5}) {
          CAPTURE(saved_name, ranks, loaded_name, others);
          for (std::int64_t rank = 0; rank < others; ++rank) {
            RankState expected(truth.entries, loaded, rank, others), read(truth.entries, loaded, rank, others);
            expected.copy_from(truth.entries);
            read.load(checkpoint);
            CHECK(read.memory == expected.memory);
          }
        }
      }
    }
  }
}

/// Loads the newest checkpoint on `ranks` ranks and saves it again in another directory.
void reshard(const std::filesystem::path& from, const std::filesystem::path& to, const SmallState& shapes, std::int64_t ranks) {
  save_by(to, shapes.state, ranks, [&](std::int64_t rank, std::int64_t n) {
    static std::vector<RankState> parts;  // of this process, a child
    Warnings warnings;
    Checkpoint::load(from, warnings.sink(), Need::Everything, [&](const Checkpoint& checkpoint) {
      parts.emplace_back(shapes.entries, zero_layout, rank, n);
      parts.back().load(checkpoint);
    });
    return parts.back().entries;
  });
}

TEST_CASE("2 ranks, 3 ranks and 2 ranks again: the files are the same, byte for byte", "[C7]") {
  const SmallState truth(9, 1001);
  const TemporaryDirectory dir;
  std::vector<RankState> parts;
  save_by(dir / "a", truth.state, 2, parts_of(truth, zero_layout, parts));
  reshard(dir / "a", dir / "b", truth, 3);
  reshard(dir / "b", dir / "c", truth, 2);
  for (const std::int64_t rank : {0, 1}) CHECK(read_file(dir / "a" / shard(9, rank)) == read_file(dir / "c" / shard(9, rank)));
  check_whole(dir / "b", truth);
}

TEST_CASE("a rank without tensors takes part", "[C6]") {
  const SmallState truth(1);
  const TemporaryDirectory dir;
  save_by(dir.path(), truth.state, 3,
          [&](std::int64_t rank, std::int64_t) { return rank == 1 ? truth.entries : std::vector<CheckpointEntry>(); });
  check_whole(dir.path(), truth);
}

TEST_CASE("shards that do not make whole tensors are not committed") {
  const TemporaryDirectory dir;
  const SmallState before(1), state(2);
  before.save(dir.path());
  const auto refuse = [&](const EntriesOf& entries, auto&& what) {
    CHECK_THROWS_WITH(save_by(dir.path(), state.state, 2, entries), what);
    CHECK(!std::filesystem::exists(dir / (step_name(2) + ".tmp")));
    check_whole(dir.path(), before);
  };
  refuse([&](std::int64_t, std::int64_t) { return state.entries; }, Contains("blocks.0.w (master)") && Contains("overlap"));
  refuse([&](std::int64_t rank, std::int64_t) { return share_of(state.entries, {rank, 3}); }, Contains("are missing"));
  SmallState other(2);
  other.entries[0].tensor = ConstTensor(other.memory[0].data(), DType::F32, {5, 3});
  refuse([&](std::int64_t rank, std::int64_t) { return rank == 0 ? state.entries : other.entries; },
         Contains("f32(3, 5)") && Contains("f32(5, 3)"));
  const auto directory = begin_save(dir.path(), 2);
  std::vector<ShardSummary> shards = write_shards(directory, state.state, 2, [&](std::int64_t rank, std::int64_t n) {
    return share_of(state.entries, {rank, n});
  });
  std::swap(shards[0], shards[1]);
  Warnings warnings;
  CHECK_THROWS_WITH(commit_save(dir.path(), state.state, shards, 0, warnings.sink()), Contains("writer 0 gave shard_r00001.h5"));
  check_whole(dir.path(), before);
}

TEST_CASE("a missing shard and one of another checkpoint are named and the checkpoint before is taken") {
  const TemporaryDirectory dir, other;
  const SmallState first(100), second(200), stranger(300);
  const auto shares = [](const SmallState& state) -> EntriesOf {
    return [&state](std::int64_t rank, std::int64_t n) { return share_of(state.entries, {rank, n}); };
  };
  save_by(dir.path(), first.state, 2, shares(first));
  save_by(dir.path(), second.state, 2, shares(second));
  save_by(other.path(), stranger.state, 3, shares(stranger));
  const auto victim = dir / shard(200, 1);
  const auto expect = [&](auto&& what) {
    for (const bool at_once : {true, false}) {
      Warnings warnings;
      std::int64_t step = 0;
      if (at_once) {
        step = Checkpoint::open(dir.path(), warnings.sink()).step();
      } else {
        Checkpoint::load(dir.path(), warnings.sink(), Need::Everything, [&](const Checkpoint& checkpoint) { step = checkpoint.step(); });
      }
      CHECK(step == 100);
      REQUIRE(!warnings.texts.empty());
      CHECK_THAT(warnings.texts.front(), Contains(victim.string()) && what);
    }
  };
  std::filesystem::remove(victim);
  expect(Contains("No such file"));
  put(victim, read_file(dir / shard(100, 1)));
  expect(Contains("it is shard 1 of 2 of step 100, where shard 1 of 2 of step 200 is expected"));
  put(victim, read_file(other / shard(300, 1)));
  expect(Contains("shard 1 of 3 of step 300"));
}

TEST_CASE("damage met while loading: the checkpoint before is loaded instead") {
  const TemporaryDirectory dir;
  const SmallState first(100, 1001), second(200, 1001);
  std::vector<RankState> parts;
  save_by(dir.path(), first.state, 3, parts_of(first, zero_layout, parts));
  save_by(dir.path(), second.state, 3, parts_of(second, zero_layout, parts));
  const Manifest manifest = read_manifest(dir / step_name(200));
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const Piece& piece : tensor.pieces) {
      if (piece.region.count() == 0) continue;
      const auto victim = dir / shard(200, piece.file);
      const std::string whole = read_file(victim);
      std::string broken = whole;
      broken[static_cast<std::size_t>(piece.position)] = static_cast<char>(broken[static_cast<std::size_t>(piece.position)] ^ 1);
      put(victim, broken);
      RankState loaded(first.entries, zero_layout, 0, 1), expected(first.entries, zero_layout, 0, 1);
      expected.copy_from(first.entries);
      Warnings warnings;
      Checkpoint::load(dir.path(), warnings.sink(), Need::Everything, [&](const Checkpoint& checkpoint) { loaded.load(checkpoint); });
      CHECK(loaded.memory == expected.memory);
      REQUIRE(warnings.texts.size() == 1);
      CHECK_THAT(warnings.texts.front(), Contains(victim.string()) && Contains(tensor.label()));
      put(victim, whole);
    }
  }
}

TEST_CASE("loading in another layout takes no second copy of a tensor") {
  constexpr std::int64_t kRows = 4096, kColumns = 2048;  // 32 MiB
#ifdef __SANITIZE_ADDRESS__
  constexpr bool kMemoryTells = false;  // what was freed stays in the sanitizer's quarantine
#else
  constexpr bool kMemoryTells = true;
#endif
  const TemporaryDirectory dir;
  CheckpointState state;
  state.step = 1;
  save_by(dir.path(), state, 2, [&](std::int64_t rank, std::int64_t) {
    static std::vector<float> half(kRows / 2 * kColumns);
    for (std::size_t i = 0; i < half.size(); ++i) half[i] = static_cast<float>(i + static_cast<std::size_t>(rank));
    return std::vector<CheckpointEntry>{{"w",
                                         "model",
                                         ConstTensor(reinterpret_cast<std::byte*>(half.data()), DType::F32, {kRows / 2, kColumns}),
                                         {},
                                         Placement{{kRows, kColumns}, {{rank * kRows / 2, 0}, {kRows / 2, kColumns}, false}}}};
  });
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<float> half(kRows * kColumns / 2, -1.0F);  // the left half of the columns
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    Warnings warnings;
    Checkpoint::open_unverified(dir.path())
        .read("w", "model", Placement{{kRows, kColumns}, {{0, 0}, {kRows, kColumns / 2}, false}},
              Tensor(reinterpret_cast<std::byte*>(half.data()), DType::F32, {kRows, kColumns / 2}));
    ::getrusage(RUSAGE_SELF, &after);
    bool right = true;
    for (std::int64_t i = 0; i < kRows * kColumns / 2; ++i) {
      const std::int64_t row = i / (kColumns / 2), column = i % (kColumns / 2), rank = row / (kRows / 2);
      const float expected = static_cast<float>((row % (kRows / 2)) * kColumns + column + rank);
      right = right && half[static_cast<std::size_t>(i)] == expected;
    }
    ::_exit(right && (!kMemoryTells || after.ru_maxrss - before.ru_maxrss < 8 * 1024) ? 0 : 1);  // KiB
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

}  // namespace
}  // namespace oxrse::io

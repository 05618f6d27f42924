#include "engine/train/peer_copies.h"

#include <mutex>

#include "io/files.h"
#include "tests/comm/ranks.h"
#include "tests/io/checkpoint_fixture.h"
#include "tests/io/memory_file_system.h"

using namespace oxrse;
using namespace oxrse::train;
using Catch::Contains;

namespace {

/// What four ranks on two nodes choose, when the nodes have these steps in memory (0: nothing).
struct TwoNodes {
  io::MemoryRoot roots[2];
  std::vector<std::string> warnings;

  [[nodiscard]] io::CheckpointConfig config(int node) const {
    io::CheckpointConfig config;
    config.peer_dir = roots[node].path().string();
    return config;
  }
  [[nodiscard]] std::filesystem::path directory(int node) const { return roots[node].only_run(); }

  void save(std::int64_t first, std::int64_t second) {
    for (const int node : {0, 1}) {
      const PeerCopies copies(config(node), "a run", 1000, nullptr, true);
      if (const std::int64_t step = node == 0 ? first : second) io::SmallState(step, 100'000).save(*copies.directory());
    }
  }
  std::vector<std::string> choose(std::int64_t newest_file) {
    std::vector<std::string> chosen(4);
    std::mutex mutex;
    const auto errors = comm::testing::run_ranks(4, [&](comm::Communicator& ranks) {
      PeerCopies copies(config(ranks.rank() / 2), "a run", 1000, &ranks, ranks.rank() % 2 == 0);
      const auto copy = copies.choose(newest_file, [&](const std::string& text) {
        const std::lock_guard lock(mutex);
        warnings.push_back(text);
      });
      if (!copy) return;
      require(io::damage_of(*copy).empty(), "{} is damaged", copy->string());  // as soon as it is chosen
      const std::lock_guard lock(mutex);
      chosen[static_cast<std::size_t>(ranks.rank())] = copy->string();
    });
    for (const std::string& error : errors) CHECK(error.empty());
    return chosen;
  }
};

void flip_a_byte(const std::filesystem::path& file) {
  std::string bytes = io::read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  io::put(file, bytes);
}

}  // namespace

TEST_CASE("the newest copy that any node has is chosen and sent to nodes that lack it", "[peer]") {
  if (!io::has_memory_file_system()) return;
  const std::int64_t first = GENERATE(0, 5, 7), second = GENERATE(0, 7, 9);
  TwoNodes nodes;
  nodes.save(first, second);
  const auto chosen = nodes.choose(std::max<std::int64_t>(first, second) - 1);
  const std::int64_t newest = std::max(first, second);
  for (const int rank : {0, 1, 2, 3}) {
    const auto expected = nodes.directory(rank / 2) / io::step_name(newest);
    CHECK(chosen[static_cast<std::size_t>(rank)] == (newest == 0 ? "" : expected.string()));
  }
  if (newest == 0) return;
  for (const char* file : {"manifest.json", "shard_r00000.h5"}) {
    CHECK(io::read_file(nodes.directory(0) / io::step_name(newest) / file) ==
          io::read_file(nodes.directory(1) / io::step_name(newest) / file));
  }
  CHECK(nodes.warnings.empty());
}

TEST_CASE("a damaged copy is named and the other node's taken", "[peer]") {
  if (!io::has_memory_file_system()) return;
  TwoNodes nodes;
  nodes.save(7, 7);
  const auto shard = nodes.directory(0) / io::step_name(7) / "shard_r00000.h5";
  flip_a_byte(shard);
  const auto chosen = nodes.choose(7);
  CHECK(chosen[0] == (nodes.directory(0) / io::step_name(7)).string());  // sent by the other node
  CHECK(chosen[3] == (nodes.directory(1) / io::step_name(7)).string());
  REQUIRE(nodes.warnings.size() == 1);
  CHECK_THAT(nodes.warnings[0], Contains(shard.string()) && Contains("damaged"));
}

TEST_CASE("files that are newer, or no whole copy: it is said, and copies do not stay", "[peer]") {
  if (!io::has_memory_file_system()) return;
  TwoNodes nodes;
  nodes.save(7, 7);
  const bool newer = GENERATE(true, false);
  if (!newer) {
    for (const int node : {0, 1}) flip_a_byte(nodes.directory(node) / io::step_name(7) / "shard_r00000.h5");
  }
  CHECK(nodes.choose(newer ? 8 : 3) == std::vector<std::string>(4));
  CHECK_THAT(nodes.warnings.back(), newer ? Contains("the copy in memory is of step 7, before that of the files")
                                          : Contains("holds no whole copy of this run: it goes on from files"));
  for (const int node : {0, 1}) CHECK(!io::holds_checkpoint(nodes.directory(node)));
}

TEST_CASE("copies without room are refused with the keys", "[peer]") {
  if (!io::has_memory_file_system()) return;
  const io::MemoryRoot root;
  io::CheckpointConfig config;
  config.peer_dir = root.path().string();
  CHECK_THROWS_WITH(PeerCopies(config, "a run", std::int64_t{1} << 60, nullptr, true),
                    Contains("checkpoint.peer: ") && Contains("has room for") && Contains("checkpoint.peer_dir"));
  config.peer_dir = "/proc";
  CHECK_THROWS_WITH(PeerCopies(config, "a run", 1, nullptr, true), Contains("/proc is not in memory"));
}

#include "engine/train/peer_copies.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>

#include "engine/train/copy_save.h"
#include "io/checkpoint/share.h"
#include "io/files.h"
#include "tests/comm/ranks.h"
#include "tests/io/checkpoint_fixture.h"
#include "tests/io/memory_file_system.h"

using namespace oxrse;
using namespace oxrse::train;
using Catch::Contains;

namespace {

constexpr std::int64_t kLarge = 100'000;  // elements of the largest tensor

void flip_a_byte(const std::filesystem::path& file) {
  std::string bytes = io::read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  io::put(file, bytes);
}

/// Ranks (threads here) on nodes whose memory is told apart.
class Cluster {
 public:
  /// The node of each rank, counted from 0.
  explicit Cluster(std::vector<std::size_t> nodes) { place(std::move(nodes)); }

  /// From now on there are these ranks; nodes that are new have empty memory.
  void place(std::vector<std::size_t> nodes) {
    nodes_ = std::move(nodes);
    while (roots_.size() <= *std::max_element(nodes_.begin(), nodes_.end())) roots_.emplace_back();
  }
  /// Calls `body` on every rank; returns what it told and what failed.
  std::vector<std::string> run(const std::function<void(comm::Communicator&, PeerCopies&, const io::Warn&)>& body) {
    std::mutex mutex;
    std::vector<std::string> told;
    const io::Warn tell = [&](const std::string& text) {
      const std::lock_guard lock(mutex);
      told.push_back(text);
    };
    const auto errors = comm::testing::run_ranks(static_cast<int>(nodes_.size()), [&](comm::Communicator& ranks) {
      const std::size_t node = nodes_[static_cast<std::size_t>(ranks.rank())];
      const auto first = static_cast<int>(std::find(nodes_.begin(), nodes_.end(), node) - nodes_.begin());
      io::CheckpointConfig config;
      config.peer_dir = roots_[node].path().string();
      PeerCopies copies(config, "a run", 1000, &ranks, first);
      body(ranks, copies, tell);
    });
    for (const std::string& error : errors) {
      if (!error.empty()) tell(error);
    }
    return told;
  }
  /// All ranks save their shares of the state of each step.
  std::vector<std::string> save(const std::vector<std::int64_t>& steps,
                                const std::function<void(int rank, std::int64_t step)>& before_writing = {}) {
    return run([&](comm::Communicator& ranks, PeerCopies& copies, const io::Warn& tell) {
      CopySave save(&ranks, copies.nodes(), copies.directory());
      for (const std::int64_t step : steps) {
        const io::SmallState state(step, kLarge);
        save.begin(state.state);
        if (before_writing) before_writing(ranks.rank(), step);
        save.write(io::share_of(state.entries, {ranks.rank(), ranks.size()}), "");
        if (const auto problem = save.finish()) tell(*problem);
      }
    });
  }
  /// All ranks go on from what they choose; rank r then reads its share of so many. Returns the steps they went on from, -1: none.
  std::vector<std::int64_t> go_on(std::int64_t newest_file, std::vector<std::string>& told) {
    std::vector<std::int64_t> steps(nodes_.size(), -1);
    told = run([&](comm::Communicator& ranks, PeerCopies& copies, const io::Warn& tell) {
      const auto chosen = copies.choose(newest_file, tell);
      if (!chosen) return;
      const io::Manifest manifest = io::read_manifest(*chosen);
      const io::SmallState truth(manifest.step, kLarge);
      const auto wanted = io::share_of(truth.entries, {ranks.rank(), ranks.size()});
      if (!copies.fetch(files_with(manifest, wanted), tell)) return;
      const io::Checkpoint checkpoint = io::Checkpoint::open_part(*chosen);
      for (const io::CheckpointEntry& entry : wanted) {
        std::string bytes(static_cast<std::size_t>(entry.tensor.bytes()), '?');
        checkpoint.read(entry.name, entry.part, entry.place(),
                        Tensor(reinterpret_cast<std::byte*>(bytes.data()), entry.tensor.dtype(), entry.tensor.sizes()));
        require(bytes == io::bytes_of(entry.tensor), "{} is not what was saved", entry.label());
      }
      require(checkpoint.state() == truth.state.state, "the state is not what was saved");
      steps[static_cast<std::size_t>(ranks.rank())] = checkpoint.step();
    });
    return steps;
  }
  [[nodiscard]] std::filesystem::path directory(std::size_t node) const { return roots_[node].only_run(); }
  [[nodiscard]] std::vector<std::string> files(std::size_t node, std::int64_t step) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory(node) / io::step_name(step))) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  void lose(std::size_t node) const { std::filesystem::remove_all(directory(node)); }

 private:
  static std::vector<bool> files_with(const io::Manifest& manifest, const std::vector<io::CheckpointEntry>& wanted) {
    std::vector<bool> files(manifest.files.size(), false);
    files.front() = true;
    for (const io::StoredTensor& tensor : manifest.tensors) {
      for (const io::CheckpointEntry& entry : wanted) {
        if (entry.name != tensor.name || entry.part != tensor.part) continue;
        for (const io::Piece& piece : tensor.pieces) {
          const io::Runs stored(piece.region, tensor.shape), mine(entry.place().region, tensor.shape);
          if (io::common_elements(stored, mine) > 0) files[static_cast<std::size_t>(piece.file)] = true;
        }
      }
    }
    return files;
  }

  std::vector<std::size_t> nodes_;
  std::deque<io::MemoryRoot> roots_;
};

using Names = std::vector<std::string>;
const std::vector<std::size_t> kThree = {0, 1, 2};

}  // namespace

TEST_CASE("partners are on the next node, evenly where nodes are equal", "[peer]") {
  const auto partners = [](const std::vector<int>& first_of_node) {
    std::vector<int> found(first_of_node.size(), -1);
    const auto errors = comm::testing::run_ranks(static_cast<int>(first_of_node.size()), [&](comm::Communicator& ranks) {
      const Nodes nodes(&ranks, first_of_node[static_cast<std::size_t>(ranks.rank())]);
      const auto partner = nodes.partner_of(ranks.rank());
      found[static_cast<std::size_t>(ranks.rank())] = partner.value_or(-1);
      require(nodes.leads() == (nodes.mine() == ranks.rank()), "who leads?");
      require(nodes.keeps(ranks.rank()), "a node keeps what is its own");
      for (int other = 0; other < ranks.size(); ++other) {
        const bool sent = nodes.partner_of(other) && nodes.node_of(*nodes.partner_of(other)) == nodes.mine();
        require(nodes.keeps(other) == (sent || nodes.node_of(other) == nodes.mine()), "rank {} keeps what rank {} has?", ranks.rank(),
                other);
      }
    });
    for (const std::string& error : errors) CHECK(error.empty());
    return found;
  };
  CHECK(partners({0, 0, 0}) == std::vector<int>{-1, -1, -1});
  CHECK(partners({0, 1}) == std::vector<int>{1, 0});
  CHECK(partners({0, 1, 2}) == std::vector<int>{1, 2, 0});
  CHECK(partners({0, 0, 2, 2}) == std::vector<int>{2, 3, 0, 1});
  CHECK(partners({0, 1, 0, 1}) == std::vector<int>{1, 0, 3, 2});  // not side by side
  CHECK(partners({0, 1, 1, 1}) == std::vector<int>{1, 0, 0, 0});
  CHECK(partners({0, 0, 0, 3}) == std::vector<int>{3, 3, 3, 0});
}

TEST_CASE("any one node can be lost: its shards come from partners, on as many ranks as there are then", "[peer]") {
  if (!io::has_memory_file_system()) return;
  const std::vector<std::size_t> before =
      GENERATE(values<std::vector<std::size_t>>({{0, 1}, {0, 1, 2}, {0, 0, 1, 1}, {0, 1, 1}, {0, 1, 0, 1, 2}}));
  const std::size_t lost = GENERATE(as<std::size_t>(), 0, 1, 2), nodes = before.back() + 1;
  if (lost >= nodes) return;
  Cluster cluster(before);
  CHECK(cluster.save({3, 5, 8}) == Names());
  CHECK(io::step_directories(cluster.directory(0)).size() == 2);  // the one before, until the next is begun
  cluster.lose(lost);
  std::vector<std::size_t> after = before;  // the ranks go on elsewhere, or without the node
  if (GENERATE(true, false)) {
    std::replace(after.begin(), after.end(), lost, nodes);
  } else {
    std::erase(after, lost);
  }
  cluster.place(after);
  Names told;
  CHECK(cluster.go_on(5, told) == std::vector<std::int64_t>(after.size(), 8));
  CHECK(told == Names());
  for (const std::size_t node : after) CHECK(io::step_directories(cluster.directory(node)).size() == 1);
  CHECK(cluster.save({9, 10}) == Names());  // and the run goes on making copies
  CHECK(cluster.go_on(-1, told) == std::vector<std::int64_t>(after.size(), 10));
}

TEST_CASE("each node keeps the shards of its ranks and of their partners, nothing else", "[peer]") {
  if (!io::has_memory_file_system()) return;
  Cluster cluster({0, 1, 2, 3});
  CHECK(cluster.save({4}) == Names());
  CHECK(cluster.files(0, 4) == Names{"manifest.json", "shard_r00000.h5", "shard_r00003.h5"});
  CHECK(cluster.files(2, 4) == Names{"manifest.json", "shard_r00001.h5", "shard_r00002.h5"});
  Names told;
  CHECK(cluster.go_on(-1, told) == std::vector<std::int64_t>(4, 4));  // the same ranks: all that is needed is there, but for the first file
  CHECK(cluster.files(2, 4) == Names{"manifest.json", "shard_r00000.h5", "shard_r00001.h5", "shard_r00002.h5"});
  Cluster one({0, 0, 0});
  CHECK(one.save({4}) == Names());
  CHECK(io::damage_of(one.directory(0) / io::step_name(4)).empty());
}

TEST_CASE("a damaged shard is named and the partner's taken; without any whole one files are", "[peer]") {
  if (!io::has_memory_file_system()) return;
  Cluster cluster({0, 1, 2});
  CHECK(cluster.save({7}) == Names());
  const auto first = cluster.directory(1) / io::step_name(7) / "shard_r00001.h5",
             second = cluster.directory(2) / io::step_name(7) / "shard_r00001.h5";
  CHECK(io::read_file(first) == io::read_file(second));
  flip_a_byte(first);
  Names told;
  CHECK(cluster.go_on(7, told) == std::vector<std::int64_t>(3, 7));
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], Contains(first.string()) && Contains("damaged"));
  CHECK(io::read_file(first) == io::read_file(second));  // it is whole again
  flip_a_byte(first);
  flip_a_byte(second);
  CHECK(cluster.go_on(3, told) == std::vector<std::int64_t>(3, -1));
  CHECK(std::any_of(told.begin(), told.end(), [](const std::string& text) {
    return text == "no node has shard_r00001.h5 of the copy of step 7 in memory: this copy is not used";
  }));
  CHECK(std::any_of(told.begin(), told.end(),
                    [](const std::string& text) { return text.find("it goes on from files") != std::string::npos; }));
  for (const std::size_t node : kThree) CHECK(!io::holds_checkpoint(cluster.directory(node)));
}

TEST_CASE("a copy that not all nodes have committed: the one before is taken", "[peer]") {
  if (!io::has_memory_file_system()) return;
  Cluster cluster({0, 1, 2});
  CHECK(cluster.save({6, 8}) == Names());
  std::filesystem::rename(cluster.directory(1) / io::step_name(8), cluster.directory(1) / (io::step_name(8) + ".tmp"));
  cluster.lose(2);
  cluster.place({0, 1});
  Names told;
  CHECK(cluster.go_on(6, told) == std::vector<std::int64_t>(2, 6));
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], Contains("no node has shard_r00001.h5 of the copy of step 8"));
}

TEST_CASE("a copy that one node cannot make is given up on all, and the one before stays", "[peer]") {
  if (!io::has_memory_file_system()) return;
  Cluster cluster({0, 1, 2});
  // What is in the way: of the file of this rank, of the one that is sent to it, or of the manifest, when others have committed theirs.
  const std::string name = GENERATE("shard_r00001.h5", "shard_r00000.h5", "manifest.json");
  const auto told = cluster.save({5, 6, 7}, [&](int rank, std::int64_t step) {
    if (rank == 1 && step == 6) std::filesystem::create_directories(io::unfinished_save(cluster.directory(1), 6) / name / "in the way");
  });
  REQUIRE(told.size() == 3);  // all ranks say so
  for (const std::string& text : told) CHECK_THAT(text, Contains("rank 1: ") && Contains(name));
  for (const std::size_t node : kThree) {
    CHECK(!std::filesystem::exists(cluster.directory(node) / io::step_name(6)));
    CHECK(!std::filesystem::exists(io::unfinished_save(cluster.directory(node), 6)));
    CHECK(std::filesystem::exists(cluster.directory(node) / io::step_name(5)));
    CHECK(std::filesystem::exists(cluster.directory(node) / io::step_name(7)));
  }
}

TEST_CASE("files that are newer: it is said, and copies do not stay", "[peer]") {
  if (!io::has_memory_file_system()) return;
  Cluster cluster({0, 1});
  CHECK(cluster.save({7}) == Names());
  Names told;
  CHECK(cluster.go_on(8, told) == std::vector<std::int64_t>(2, -1));
  CHECK_THAT(told.back(), Contains("the copy in memory is of step 7, before that of the files"));
  for (const std::size_t node : {std::size_t{0}, std::size_t{1}}) CHECK(!io::holds_checkpoint(cluster.directory(node)));
  CHECK(cluster.go_on(-1, told) == std::vector<std::int64_t>(2, -1));
  CHECK(told == Names());  // a new run
}

TEST_CASE("copies without room are refused with the keys", "[peer]") {
  if (!io::has_memory_file_system()) return;
  const io::MemoryRoot root;
  io::CheckpointConfig config;
  config.peer_dir = root.path().string();
  CHECK_THROWS_WITH(PeerCopies(config, "a run", std::int64_t{1} << 60, nullptr, 0),
                    Contains("checkpoint.peer: ") && Contains("has room for") && Contains("checkpoint.peer_dir"));
  config.peer_dir = "/proc";
  CHECK_THROWS_WITH(PeerCopies(config, "a run", 1, nullptr, 0), Contains("/proc is not in memory"));
}

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <random>

#include "io/checkpoint/share.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_ranks.h"

namespace oxrse::io {
namespace {

using Catch::Contains;

/// Runs `f` in a process of its own; true when it returned true.
bool in_child(const std::function<bool()>& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void flip_byte(const std::filesystem::path& path, std::size_t place) {
  std::string contents = read_file(path);
  contents[place] = static_cast<char>(contents[place] ^ 0x10);
  put(path, contents);
}

std::vector<std::string> names_of(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// The step of what opens, after comparing every tensor.
std::int64_t step_of_whole(const std::filesystem::path& checkpoints, Warnings& warnings, std::int64_t large = 0) {
  const Checkpoint checkpoint = Checkpoint::open(checkpoints, warnings.sink());
  const SmallState truth(checkpoint.step(), large);
  for (const CheckpointEntry& entry : truth.entries) {
    CAPTURE(checkpoint.step(), entry.name, entry.part);
    REQUIRE(read_bytes(checkpoint, entry) == bytes_of(entry.tensor));
  }
  return checkpoint.step();
}

/// Saves by so many processes of the group that the caller leads.
void save_state(const std::filesystem::path& checkpoints, const SmallState& state, std::int64_t ranks) {
  if (ranks == 1) return state.save(checkpoints, 2);
  save_by(
      checkpoints, state.state, ranks,
      [&](std::int64_t rank, std::int64_t n) {
        return share_of(state.entries, {rank, n});
      },
      2);
}

/// Saves step after step and reports each as done.
[[noreturn]] void save_forever(const std::filesystem::path& checkpoints, std::int64_t step, std::int64_t large, std::int64_t ranks,
                               int report) {
  ::setpgid(0, 0);
  for (;; ++step) {
    save_state(checkpoints, SmallState(step, large), ranks);
    if (::write(report, &step, sizeof step) != sizeof step) ::_exit(1);
  }
}

std::int64_t number_from_environment(const char* name, std::int64_t otherwise) {
  const char* asked = std::getenv(name);
  return asked != nullptr ? std::atoll(asked) : otherwise;
}

// The long form: OXRSE_TEST_KILLS=200.
TEST_CASE("a kill at any moment of saving loses nothing that was saved", "[C1]") {
  const std::int64_t ranks = GENERATE(1, 2, 3);
  const std::int64_t kills = number_from_environment("OXRSE_TEST_KILLS", ranks == 1 ? 20 : 8);
  constexpr std::int64_t kLarge = 300'000;
  const TemporaryDirectory dir;
  const auto begin = std::chrono::steady_clock::now();
  save_state(dir.path(), SmallState(1, kLarge), ranks);
  const auto save_us = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count() + 1;
  std::int64_t saved = 1;
  std::mt19937 random(42);
  for (std::int64_t kill = 0; kill < kills; ++kill) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    if (child == 0) save_forever(dir.path(), saved + 1, kLarge, ranks, ends[1]);
    ::setpgid(child, child);  // whoever is first
    ::close(ends[1]);
    if (kill % 4 == 0) CHECK(::read(ends[0], &saved, sizeof saved) == sizeof saved);  // however slow the machine: some saves end
    ::usleep(static_cast<useconds_t>(random() % (2 * save_us)));
    ::kill(-child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(ends[0], &saved, sizeof saved) == sizeof saved) {  // until the last of the group is gone
    }
    ::close(ends[0]);
    Warnings warnings;
    const std::int64_t found = step_of_whole(dir.path(), warnings, kLarge);
    CHECK(warnings.texts.empty());
    REQUIRE(found >= saved);
    saved = found;
  }
  CHECK(saved > 1);
}

TEST_CASE("a LATEST that names no checkpoint is repaired", "[C2]") {
  const TemporaryDirectory dir;
  SmallState(90).save(dir.path());
  SmallState(100).save(dir.path());
  for (const char* contents : {"", "garbage\n", "step_0000000300\n", "../../etc/passwd", "step_0000000100/../step_0000000090"}) {
    CAPTURE(contents);
    put(dir / "LATEST", contents);
    Warnings warnings;
    CHECK(step_of_whole(dir.path(), warnings) == 100);
    REQUIRE(warnings.texts.size() == 1);
    CHECK_THAT(warnings.texts.front(), Contains("LATEST") && Contains("step_0000000100"));
    CHECK(read_file(dir / "LATEST") == "step_0000000100\n");
  }
}

// The long form: OXRSE_TEST_FLIPS=500.
TEST_CASE("a flipped byte anywhere is noticed and the checkpoint before is taken", "[C3]") {
  const std::int64_t ranks = GENERATE(1, 3);
  const std::int64_t flips = number_from_environment("OXRSE_TEST_FLIPS", 120);
  const TemporaryDirectory dir;
  save_state(dir.path(), SmallState(100), ranks);
  save_state(dir.path(), SmallState(200), ranks);
  const std::vector<std::string> names = names_of(dir / "step_0000000200");
  REQUIRE(names.size() == static_cast<std::size_t>(ranks) + 1);
  std::mt19937 random(7);
  for (std::int64_t i = 0; i < flips; ++i) {
    const std::string& name = names[random() % names.size()];
    const auto path = dir / "step_0000000200" / name;
    const std::size_t place = random() % std::filesystem::file_size(path);
    CAPTURE(name, place);
    flip_byte(path, place);
    Warnings warnings;
    CHECK(step_of_whole(dir.path(), warnings) == 100);
    REQUIRE_FALSE(warnings.texts.empty());
    CHECK_THAT(warnings.texts.front(), Contains(path.string()));
    Warnings while_loading;
    std::int64_t loaded = 0;
    Checkpoint::load(dir.path(), while_loading.sink(), Need::Everything, [&](const Checkpoint& checkpoint) {
      for (const CheckpointEntry& entry : SmallState(100).entries) read_bytes(checkpoint, entry);
      loaded = checkpoint.step();
    });
    CHECK(loaded == 100);
    REQUIRE_FALSE(while_loading.texts.empty());
    CHECK_THAT(while_loading.texts.front(), Contains(path.string()));
    CHECK_THROWS_WITH(Checkpoint::open(dir / "step_0000000200", warnings.sink()), Contains(path.string()));
    flip_byte(path, place);
  }
  Warnings warnings;
  CHECK(step_of_whole(dir.path(), warnings) == 200);
}

TEST_CASE("damage inside a tensor names the tensor", "[C3]") {
  const TemporaryDirectory dir;
  SmallState(5).save(dir.path());
  const auto step = dir / "step_0000000005";
  for (const StoredTensor& tensor : read_manifest(step).tensors) {
    if (tensor.bytes() == 0) continue;
    const auto place = static_cast<std::size_t>(tensor.pieces.front().position + tensor.bytes() - 1);
    flip_byte(step / "shard_r00000.h5", place);
    const auto damage = damage_of(step);
    REQUIRE(damage.size() == 1);
    CHECK_THAT(damage.front(), Contains("shard_r00000.h5") && Contains(tensor.label()));
    flip_byte(step / "shard_r00000.h5", place);
  }
  CHECK(damage_of(step).empty());
}

TEST_CASE("missing, shortened and foreign files are named") {
  const TemporaryDirectory dir;
  SmallState(100).save(dir.path());
  SmallState(200).save(dir.path());
  const auto shard = dir / "step_0000000200" / "shard_r00000.h5";
  const std::string whole = read_file(shard);
  const auto expect = [&](const std::string& what) {
    Warnings warnings;
    CHECK(step_of_whole(dir.path(), warnings) == 100);
    REQUIRE_FALSE(warnings.texts.empty());
    CHECK_THAT(warnings.texts.front(), Contains(shard.string()) && Contains(what));
  };
  std::filesystem::remove(shard);
  expect("No such file");
  put(shard, whole.substr(0, whole.size() / 2));
  expect("bytes where");
  put(shard, read_file(dir / "step_0000000100" / "shard_r00000.h5"));
  expect("it is shard 0 of 1 of step 100");
  std::filesystem::remove(dir / "step_0000000200" / "manifest.json");
  Warnings warnings;
  CHECK(step_of_whole(dir.path(), warnings) == 100);
  std::filesystem::remove(dir / "step_0000000100" / "manifest.json");
  CHECK_THROWS_WITH(Checkpoint::open(dir.path(), warnings.sink()), Contains("no whole checkpoint") && Contains("step_0000000100"));
}

TEST_CASE("a checkpoint under the name of another step is damaged, and the one before is taken") {
  const TemporaryDirectory dir;
  for (const std::int64_t step : {2, 4, 6}) SmallState(step).save(dir.path());
  const auto renamed = dir / "step_0000000009";
  const std::string complaint =
      renamed.string() + " holds the checkpoint of step 6, not of step 9: it was renamed, give it the name step_0000000006 back";
  std::filesystem::rename(dir / "step_0000000006", renamed);
  const auto damage = damage_of(renamed);
  REQUIRE(damage.size() == 1);
  CHECK_THAT(damage.front(), Contains(complaint));
  Warnings warnings;
  for (const std::string end : {"", "/"}) CHECK_THROWS_WITH(Checkpoint::open(renamed.string() + end, warnings.sink()), Contains(complaint));
  CHECK_THROWS_WITH(Checkpoint::open_unverified(renamed), Contains(complaint));
  CHECK(step_of_whole(dir.path(), warnings) == 4);
  REQUIRE(warnings.texts.size() == 2);
  CHECK_THAT(warnings.texts.front(), Contains(complaint) && Contains("this checkpoint is not used"));
  CHECK_THAT(warnings.texts.back(), Contains("LATEST"));
  CHECK(read_file(dir / "LATEST") == "step_0000000004\n");
  SmallState(8).save(dir.path(), 1);  // it does not count as one that is kept, and is not removed unseen
  CHECK(names_of(dir.path()) == std::vector<std::string>{"LATEST", "step_0000000008", "step_0000000009"});
  std::filesystem::rename(renamed, dir / "step_0000000006");
  CHECK(damage_of(dir / "step_0000000006").empty());
  std::filesystem::rename(dir / "step_0000000006", dir / "best");  // names without a step are free
  CHECK(damage_of(dir / "best").empty());
}

TEST_CASE("an unfinished save of the same step is replaced", "[C4]") {
  const TemporaryDirectory dir;
  const auto stale = dir / "step_0000000010.tmp";
  std::filesystem::create_directories(stale);
  put(stale / "shard_r00000.h5", "half a file");
  put(stale / "shard_r00007.h5", "of another run");
  CHECK_FALSE(holds_checkpoint(dir.path()));
  SmallState(10).save(dir.path());
  CHECK(names_of(dir.path()) == std::vector<std::string>{"LATEST", "step_0000000010"});
  CHECK(names_of(dir / "step_0000000010") == std::vector<std::string>{"manifest.json", "shard_r00000.h5"});
}

TEST_CASE("later steps of an earlier run are neither used nor removed", "[C4]") {
  const TemporaryDirectory dir;
  for (const std::int64_t step : {100, 200, 300}) SmallState(step).save(dir.path(), 3);
  SmallState(150).save(dir.path(), 1);  // went on from step 100
  CHECK(names_of(dir.path()) == std::vector<std::string>{"LATEST", "step_0000000150", "step_0000000200", "step_0000000300"});
  Warnings warnings;
  CHECK(step_of_whole(dir.path(), warnings) == 150);
  REQUIRE(warnings.texts.size() == 2);
  CHECK_THAT(warnings.texts.front(), Contains("step_0000000300") && Contains("earlier run"));
}

TEST_CASE("a different checkpoint of the same step is kept under another name", "[C4]") {
  const TemporaryDirectory dir;
  SmallState(100).save(dir.path());
  SmallState other(100);
  other.state.config["run"]["seed"] = 1;
  Warnings warnings;
  save_checkpoint(dir.path(), other.state, other.entries, 0, warnings.sink());
  REQUIRE(warnings.texts.size() == 1);
  CHECK_THAT(warnings.texts.front(), Contains("step_0000000100.older"));
  CHECK(damage_of(dir / "step_0000000100.older").empty());
  CHECK(Checkpoint::open(dir.path(), warnings.sink()).config() == other.state.config);
  other.save(dir.path());  // the same again: nothing to keep, nothing to say
  CHECK(names_of(dir.path()) == std::vector<std::string>{"LATEST", "step_0000000100", "step_0000000100.older"});
}

TEST_CASE("the newest checkpoints are kept, by number", "[C8]") {
  const TemporaryDirectory dir;
  for (const std::int64_t step : {std::int64_t{9}, std::int64_t{100}, std::int64_t{200}, std::int64_t{20'000'000'000}}) {
    SmallState(step).save(dir.path(), 2);
  }
  CHECK(names_of(dir.path()) == std::vector<std::string>{"LATEST", "step_0000000200", "step_20000000000"});
  SmallState(20'000'000'001).save(dir.path(), 1);
  CHECK(names_of(dir.path()) == std::vector<std::string>{"LATEST", "step_20000000001"});
  SmallState(20'000'000'002).save(dir.path(), 0);
  CHECK(names_of(dir.path()).size() == 3);
}

TEST_CASE("a save that cannot be written fails with the reason and leaves the old one") {
  constexpr std::int64_t kLarge = 100'000;
  const TemporaryDirectory dir;
  SmallState(1, kLarge).save(dir.path());
  // The limits end the write in the structure of the file, when it gets its size, in a tensor, and in the manifest.
  for (const rlim_t limit : {rlim_t{100}, rlim_t{5000}, rlim_t{350'000}}) {
    CAPTURE(limit);
    CHECK(in_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit most{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &most);
      try {
        SmallState(2, kLarge).save(dir.path(), 1);
        return false;
      } catch (const Error& error) {
        return std::string(error.what()).find("step 2 not saved") != std::string::npos &&
               std::string(error.what()).find("File too large") != std::string::npos;
      }
    }));
    CHECK(names_of(dir.path()) == std::vector<std::string>{"LATEST", "step_0000000001"});
    Warnings warnings;
    CHECK(step_of_whole(dir.path(), warnings, kLarge) == 1);
    CHECK(warnings.texts.empty());
  }
}

TEST_CASE("a directory that cannot be written is named") {
  const TemporaryDirectory dir;
  put(dir / "file", "");
  CHECK_THROWS_WITH(SmallState(1).save(dir / "file" / "checkpoints"), Contains((dir / "file").string()));
}

}  // namespace
}  // namespace oxrse::io

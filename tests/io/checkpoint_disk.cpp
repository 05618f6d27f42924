// File systems that fail: full, read-only, vanished.

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/catch.h"
#include "tests/io/checkpoint_fixture.h"

namespace oxrse::io {
namespace {

using Catch::Contains;

constexpr int kCannotMount = 77;

/// Runs `f` in a process that sees a small file system of its own at `path`; its result, or kCannotMount.
int on_small_disk(const std::filesystem::path& path, const char* options, const std::function<bool()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("tmpfs", path.c_str(), "tmpfs", 0, options) == 0;
    ::_exit(!mounted ? kCannotMount : f() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/// Whether a save fails with this text; says so when it fails otherwise.
bool fails_with(const SmallState& state, const std::filesystem::path& checkpoints, const std::string& text, std::int64_t keep = 0) {
  try {
    state.save(checkpoints, keep);
    return false;
  } catch (const Error& error) {
    const bool right = std::string(error.what()).find(text) != std::string::npos;
    if (!right) fmt::print(stderr, "{}\n", error.what());
    return right;
  }
}

bool is_whole(const std::filesystem::path& checkpoints, std::int64_t step) {
  Warnings warnings;
  const Checkpoint checkpoint = Checkpoint::open(checkpoints, warnings.sink());
  const SmallState truth(step);
  return warnings.texts.empty() && checkpoint.step() == step &&
         std::all_of(truth.entries.begin(), truth.entries.end(),
                     [&](const CheckpointEntry& entry) { return read_bytes(checkpoint, entry) == bytes_of(entry.tensor); });
}

TEST_CASE("a full disk costs the new checkpoint only, and saving works again when there is room", "[C5]") {
  const TemporaryDirectory dir;
  const int result = on_small_disk(dir.path(), "size=600k", [&] {
    SmallState(1).save(dir.path());
    const bool refused = fails_with(SmallState(2, 200'000), dir.path(), "No space left on device", 1);
    const bool kept = is_whole(dir.path(), 1) && !std::filesystem::exists(dir / "step_0000000002.tmp");
    SmallState(3).save(dir.path(), 1);
    return refused && kept && is_whole(dir.path(), 3);
  });
  if (result == kCannotMount) {
    WARN("file systems cannot be mounted here: a full disk is not tried");
    return;
  }
  CHECK(result == 0);
}

TEST_CASE("a read-only file system is named and what is there can still be read") {
  const TemporaryDirectory dir;
  const int result = on_small_disk(dir.path(), "size=2m", [&] {
    SmallState(1).save(dir.path());
    if (::mount(nullptr, dir.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) ::_exit(kCannotMount);
    return fails_with(SmallState(2), dir.path(), "Read-only file system") && is_whole(dir.path(), 1);
  });
  if (result == kCannotMount) {
    WARN("file systems cannot be mounted here: a read-only one is not tried");
    return;
  }
  CHECK(result == 0);
}

TEST_CASE("a directory that vanishes while a checkpoint is written is named, and the next save makes it anew") {
  const TemporaryDirectory dir;
  const auto checkpoints = dir / "checkpoints";
  const SmallState state(1);
  const auto unfinished = begin_save(checkpoints, 1);
  std::filesystem::remove_all(checkpoints);
  CHECK_THROWS_WITH(write_shard(unfinished, {}, state.state, state.entries), Contains(unfinished.string()) && Contains("No such file"));
  const auto again = begin_save(checkpoints, 1);
  const ShardSummary shard = write_shard(again, {}, state.state, state.entries);
  std::filesystem::remove_all(checkpoints);
  Warnings warnings;
  CHECK_THROWS_WITH(commit_save(checkpoints, state.state, {&shard, 1}, 0, warnings.sink()), Contains("step 1 not saved"));
  state.save(checkpoints);
  CHECK(is_whole(checkpoints, 1));
}

}  // namespace
}  // namespace oxrse::io

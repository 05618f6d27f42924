#include "io/checkpoint/memory_directory.h"

#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <thread>

#include "io/files.h"
#include "tests/io/memory_file_system.h"
#include "tests/io/temporary.h"

namespace oxrse::io {
namespace {

using Catch::Contains;

constexpr double kSecond = 1.0 / 3600;

/// Calls `hold` on a thread and says when it returned.
struct Holder {
  Holder(const std::filesystem::path& directory, double hours)
      : thread([this, directory, hours] {
          hold(directory, hours);
          ended = true;
        }) {}
  void wait() {
    for (int i = 0; i < 3000 && !ended; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    REQUIRE(ended);
  }
  std::atomic<bool> ended{false};
  std::jthread thread;
};

TEST_CASE("a directory in memory belongs to one process and to its user") {
  if (!has_memory_file_system()) return;
  const MemoryRoot root;
  const MemoryDirectory directory(root.path(), "run", 1);
  CHECK(directory.path() == MemoryDirectory::place(root.path(), "run"));
  struct stat user {};
  REQUIRE(::stat(directory.path().parent_path().c_str(), &user) == 0);
  CHECK((user.st_mode & 0777) == 0700);
  CHECK_THROWS_WITH(MemoryDirectory(root.path(), "run", 1), Contains("another process"));
  put(directory.path() / "file", std::string(1000, 'x'));
  directory.require_room(1000);
  CHECK_THROWS_WITH(directory.require_room(std::int64_t{1} << 60), Contains("where 1152921504606846976 are needed"));
  directory.clear();
  CHECK(!std::filesystem::exists(directory.path() / "file"));
  CHECK_THROWS_WITH(MemoryDirectory(root.path(), "run", 1), Contains("another process"));  // the lock is still there
  directory.remove();
  CHECK(!std::filesystem::exists(directory.path()));
}

TEST_CASE("places that are not in memory or somebody else's are refused") {
  if (!has_memory_file_system()) return;
  CHECK_THROWS_WITH(MemoryDirectory("/proc", "run", 1), Contains("/proc is not in memory"));
  CHECK_THROWS_WITH(MemoryDirectory("/no/such/place", "run", 1), Contains("/no/such/place: No such file"));
  const MemoryRoot root;
  const auto user = MemoryDirectory::place(root.path(), "run").parent_path();
  std::filesystem::create_directory(user);
  std::filesystem::permissions(user, std::filesystem::perms::all);  // anybody could put a copy there
  CHECK_THROWS_WITH(MemoryDirectory(root.path(), "run", 1), Contains("only this user"));
}

TEST_CASE("the holder frees what nobody came back for, and only that") {
  if (!has_memory_file_system()) return;
  const MemoryRoot root;
  auto run = std::make_unique<MemoryDirectory>(root.path(), "run", kSecond);
  const auto path = run->path();
  put(path / "copy", "of a state");
  Holder holder(path, kSecond);
  std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  CHECK(std::filesystem::exists(path / "copy"));  // held by the run
  Holder second(path, kSecond);
  second.wait();
  CHECK(!holder.ended);
  run.reset();  // killed
  run = std::make_unique<MemoryDirectory>(root.path(), "run", kSecond);
  std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  CHECK(std::filesystem::exists(path / "copy"));  // came back
  run.reset();
  holder.wait();
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("the holder ends with the directory") {
  if (!has_memory_file_system()) return;
  const MemoryRoot root;
  const MemoryDirectory run(root.path(), "run", 1);
  Holder holder(run.path(), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(!holder.ended);
  run.remove();
  holder.wait();
}

TEST_CASE("what is left when run and holder are gone is removed by the next run after its time") {
  if (!has_memory_file_system()) return;
  const MemoryRoot root;
  const auto left = MemoryDirectory(root.path(), "left", 1).path(), held = MemoryDirectory::place(root.path(), "held");
  const MemoryDirectory other(root.path(), "held", 1);
  { const MemoryDirectory next(root.path(), "next", 1); }
  CHECK(std::filesystem::exists(left));
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  std::filesystem::last_write_time(left, long_ago);
  std::filesystem::last_write_time(held, long_ago);
  { const MemoryDirectory next(root.path(), "next", 1); }
  CHECK(!std::filesystem::exists(left));
  CHECK(std::filesystem::exists(held));
}

}  // namespace
}  // namespace oxrse::io

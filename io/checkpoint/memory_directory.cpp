#include "io/checkpoint/memory_directory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "engine/core/error.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kLock = ".lock";          // of the run
constexpr const char* kHolderLock = ".holder";  // of the holder

fs::path place_of_user(const fs::path& root) {
  std::error_code error;
  const fs::path whole = fs::canonical(root, error);
  require(!error, "{}: {}", root.string(), error.message());
  return whole / fmt::format("oxrse-{}", ::geteuid());
}

/// Makes the directory that holds those of this user. Everybody may write to its parent, so that it may be somebody else's.
void make_directory_of_user(const fs::path& path) {
  struct statfs system {};
  const fs::path root = path.parent_path();
  require(::statfs(root.c_str(), &system) == 0, "{}: {}", root.string(), std::strerror(errno));
  require(system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC, "{} is not in memory (tmpfs)", root.string());
  require(::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST, "cannot make {}: {}", path.string(), std::strerror(errno));
  struct stat found {};
  require(::lstat(path.c_str(), &found) == 0, "{}: {}", path.string(), std::strerror(errno));
  const bool ours = S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  require(ours, "{} is not a directory that only this user can write to: remove it", path.string());
}

/// A process that looks whether a lock is free has it for a moment, and a process that is killed some time more.
void take(std::optional<FileLock>& lock, const fs::path& path) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    lock.emplace(path);
    if (lock->held()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  fail("{}: another process is training with copies there", path.parent_path().string());
}

bool is_free(const fs::path& lock) { return FileLock(lock).held(); }

/// Removes directories of runs that nobody continued, whose holder is gone too.
void remove_expired(const fs::path& user, double hours) {
  std::error_code error;
  const auto expired = std::chrono::duration<double, std::ratio<3600>>(hours);
  for (const auto& entry : fs::directory_iterator(user, error)) {
    const auto written = fs::last_write_time(entry.path(), error);
    if (error || fs::file_time_type::clock::now() - written < expired) continue;
    if (is_free(entry.path() / kLock) && is_free(entry.path() / kHolderLock)) fs::remove_all(entry.path(), error);
  }
}

std::int64_t bytes_in(const fs::path& directory) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(directory, error)) {
    if (entry.is_regular_file(error)) bytes += static_cast<std::int64_t>(entry.file_size(error));
  }
  return bytes;
}

/// What a process is started with: nothing of this one's streams, files and signals, so that it keeps nothing open and alive.
class Detached {
 public:
  Detached() {
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    ::posix_spawn_file_actions_init(&actions_);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_RDWR, 0);
    }
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    ::posix_spawn_file_actions_addchdir_np(&actions_, "/");
  }
  Detached(const Detached&) = delete;
  Detached& operator=(const Detached&) = delete;
  ~Detached() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  [[nodiscard]] int start(const char* program, char* const* arguments) const {
    pid_t child = 0;
    return ::posix_spawn(&child, program, &actions_, &attributes_, arguments, environ);
  }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t actions_{};
};

}  // namespace

MemoryDirectory::MemoryDirectory(const fs::path& root, const std::string& name, double hours) : path_(place(root, name)), hours_(hours) {
  make_directory_of_user(path_.parent_path());
  remove_expired(path_.parent_path(), hours);
  std::error_code error;
  fs::create_directory(path_, error);
  require(!error, "cannot make {}: {}", path_.string(), error.message());
  take(lock_, path_ / kLock);
}

fs::path MemoryDirectory::place(const fs::path& root, const std::string& name) { return place_of_user(root) / name; }

void MemoryDirectory::require_room(std::int64_t bytes) const {
  struct statfs system {};
  require(::statfs(path_.c_str(), &system) == 0, "{}: {}", path_.string(), std::strerror(errno));
  const std::int64_t room = static_cast<std::int64_t>(system.f_bavail) * system.f_bsize + bytes_in(path_);
  require(room >= bytes, "{} has room for {} bytes where {} are needed", path_.string(), room, bytes);
}

void MemoryDirectory::start_holder(const fs::path& program) const {
  if (!is_free(path_ / kHolderLock)) return;
  std::array<std::string, 6> words = {program.string(), "checkpoint", "hold", path_.string(), "--hours", fmt::format("{}", hours_)};
  std::array<char*, words.size() + 1> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  const int error = Detached().start(program.c_str(), arguments.data());
  require(error == 0, "{} cannot be started to look after {}: {}", program.string(), path_.string(), std::strerror(error));
}

void MemoryDirectory::clear() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    const auto name = entry.path().filename();
    if (name != kLock && name != kHolderLock) fs::remove_all(entry.path(), ignored);
  }
}

void MemoryDirectory::remove() const {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void hold(const fs::path& directory, double hours) {
  require(fs::is_directory(directory), "{} is no directory", directory.string());
  const FileLock only(directory / kHolderLock);
  if (!only.held()) return;
  const auto limit = std::chrono::duration<double, std::ratio<3600>>(hours);
  auto last_held = Clock::now();
  while (fs::exists(directory / kLock)) {
    {
      const FileLock run(directory / kLock);  // while it is looked at or removed, no run can take it
      if (!run.held()) last_held = Clock::now();
      if (Clock::now() - last_held > limit) fs::remove_all(directory);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

}  // namespace oxrse::io

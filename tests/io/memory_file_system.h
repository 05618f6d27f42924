#pragma once

#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine/core/error.h"
#include "tests/catch.h"

namespace oxrse::io {

/// Whether /dev/shm is a file system in memory; says so when it is not.
inline bool has_memory_file_system() {
  struct statfs system {};
  if (::statfs("/dev/shm", &system) == 0 && system.f_type == TMPFS_MAGIC) return true;
  WARN("not tested: /dev/shm is no tmpfs");
  return false;
}

/// A directory in memory that is gone at the end of the test.
class MemoryRoot {
 public:
  MemoryRoot() {
    std::string name = "/dev/shm/oxrse-test-XXXXXX";
    require(::mkdtemp(name.data()) != nullptr, "cannot create a directory {}", name);
    path_ = name;
  }
  ~MemoryRoot() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MemoryRoot(const MemoryRoot&) = delete;
  MemoryRoot& operator=(const MemoryRoot&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The directory of user and run in it, when there is exactly one.
  [[nodiscard]] std::filesystem::path only_run() const {
    std::filesystem::path only;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.path().parent_path().parent_path() != path_) continue;
      require(only.empty(), "{} holds two runs", path_.string());
      only = entry.path();
    }
    return only;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace oxrse::io

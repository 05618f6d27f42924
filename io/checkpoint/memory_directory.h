#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "io/file_lock.h"

namespace oxrse::io {

/// A directory in a file system in memory (tmpfs), where files outlive the process that wrote them and need no disk. One process holds it
/// at a time. Another small process, the holder, removes it when nobody has come back to it for some hours.
class MemoryDirectory {
 public:
  /// `root`/oxrse-<user>/`name`, made when it is not there. What other runs of the user left there longer than `hours` ago is removed. An
  /// Error when `root` is no file system in memory, belongs to somebody else, or another process holds the directory.
  MemoryDirectory(const std::filesystem::path& root, const std::string& name, double hours);
  /// Where that is.
  static std::filesystem::path place(const std::filesystem::path& root, const std::string& name);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// An Error when `bytes` do not fit, counting what the directory takes already.
  void require_room(std::int64_t bytes) const;
  /// Starts the holder, `program` checkpoint hold, unless there is one. It is in a session of its own, so that it lives on.
  void start_holder(const std::filesystem::path& program) const;
  /// Removes the files in it.
  void clear() const;
  /// Removes it, upon which the holder ends. To be called last.
  void remove() const;

 private:
  std::filesystem::path path_;
  double hours_;
  std::optional<FileLock> lock_;
};

/// What the holder does: returns when the directory is gone, or has been removed because no process held it for `hours`. Returns at once
/// when there is another holder.
void hold(const std::filesystem::path& directory, double hours);

}  // namespace oxrse::io

#pragma once

#include <filesystem>

namespace oxrse::io {

/// Holds a file's lock (flock), which ends with the process at the latest, however that ends.
class FileLock {
 public:
  /// Makes the file when there is none. Does not wait; an Error when the file cannot be opened.
  explicit FileLock(const std::filesystem::path& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  /// False when another process holds it.
  [[nodiscard]] bool held() const { return held_; }

 private:
  int descriptor_;
  bool held_;
};

}  // namespace oxrse::io

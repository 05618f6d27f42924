#pragma once

#include <filesystem>
#include <string_view>

namespace oxrse::io {

/// A file that grows by whole records: when one cannot be written to its end, the file is cut back to what it was.
class AppendFile {
 public:
  /// Makes the file when there is none. An Error names it.
  explicit AppendFile(std::filesystem::path path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  AppendFile& operator=(AppendFile&&) = delete;
  ~AppendFile();

  /// The record is with the operating system afterwards: a crash of this process does not lose it. An Error says why not.
  void append(std::string_view record);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace oxrse::io

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace oxrse::io {

/// A new file of a size that is known, mapped for writing: for bytes that come from elsewhere straight into it. Its room is taken at once,
/// so that a full file system is an Error here and not a signal later.
class MappedOutput {
 public:
  /// There must be no file of that name yet.
  MappedOutput(const std::filesystem::path& path, std::int64_t bytes);
  MappedOutput(MappedOutput&& other) noexcept;
  MappedOutput(const MappedOutput&) = delete;
  MappedOutput& operator=(const MappedOutput&) = delete;
  MappedOutput& operator=(MappedOutput&&) = delete;
  ~MappedOutput();

  /// The bytes, which are zeros at first; absent when there are none. Memory goes on to the end of the last page.
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace oxrse::io

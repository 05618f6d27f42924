#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace oxrse::io {

/// A file mapped for reading: larger than memory is fine. The memory stays valid while the object lives.
class MappedFile {
 public:
  /// An Error names the file when it cannot be opened. An empty file maps to no bytes.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(data_), static_cast<std::size_t>(size_)}; }

 private:
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
};

/// A name next to `path` that no other process or call uses, for writing before renaming.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// Waits until the contents of a file or the entries of a directory are on the disk.
void sync_to_disk(const std::filesystem::path& path);

/// Replaces `path` by `contents`, or leaves it as it was: written under a temporary name, synced, renamed. Missing parent directories are
/// made.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

/// Fills a new directory and gives it the name `path`, unless another process was faster: then what that one made is kept.
/// `fill` is given the temporary directory; when it throws, nothing is left behind.
void make_directory_atomically(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& fill);

/// The contents of a file; an Error names it when it cannot be read.
std::string read_file(const std::filesystem::path& path);

}  // namespace oxrse::io

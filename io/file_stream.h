#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace oxrse::io {

/// A file that is open for reading at any offset, from several threads. A failing disk is an Error here, where a mapped file
/// would end the process.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  InputFile(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Bytes in the file when it was opened.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Fills `out` from byte `offset` on; an Error when the file ends before.
  void read(std::span<std::byte> out, std::int64_t offset) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// A file for writing at any offset. Nothing is durable before `close`, which reports what the system could not write.
class OutputFile {
 public:
  /// Creates the file; there must be none of that name yet.
  explicit OutputFile(std::filesystem::path path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Appends after what this object last appended (at first: writes from offset 0).
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write_at(std::span<const std::byte> bytes, std::int64_t offset);
  void resize(std::int64_t bytes);
  /// fsync and close.
  void close();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t position_ = 0;
};

/// Writes a file piece by piece under another name next to `path` and renames it on `commit`; without a commit nothing is left
/// behind. Several processes may do so for the same path: each commits a whole file.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view text) { file_.write(text); }
  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  OutputFile file_;
  bool committed_ = false;
};

/// Renames (replacing a file or an empty directory) and waits until that is on the disk.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace oxrse::io

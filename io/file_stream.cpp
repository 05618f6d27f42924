#include "io/file_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/core/error.h"
#include "io/files.h"

namespace oxrse::io {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 24U;  // moved at a time; one system call moves at most 2 GiB

[[noreturn]] void fail_with_errno(std::string_view what, const std::filesystem::path& path) {
  const int code = errno;
  fail("cannot {} {}: {}", what, path.string(), std::strerror(code));
}

int open_or_fail(const std::filesystem::path& path, int flags, std::string_view what) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0) fail_with_errno(what, path);
  return descriptor;
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)), descriptor_(open_or_fail(path_, O_RDONLY | O_NONBLOCK, "open")) {
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
    size_ = status.st_size;
    return;
  }
  ::close(descriptor_);
  fail("{} is not a regular file", path_.string());
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(std::span<std::byte> out, std::int64_t offset) const {
  for (std::size_t done = 0; done < out.size();) {
    const ssize_t n = ::pread(descriptor_, out.data() + done, std::min(out.size() - done, kPiece), offset + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno("read", path_);
    require(n > 0, "{} ends at byte {}; bytes {} to {} are needed", path_.string(), size_, offset,
            offset + static_cast<std::int64_t>(out.size()));
    done += static_cast<std::size_t>(n);
  }
}

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open_or_fail(path_, O_WRONLY | O_CREAT | O_EXCL, "create")) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write_at(bytes, position_);
  position_ += static_cast<std::int64_t>(bytes.size());
}

void OutputFile::write_at(std::span<const std::byte> bytes, std::int64_t offset) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::pwrite(descriptor_, bytes.data() + done, std::min(bytes.size() - done, kPiece), offset + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno("write", path_);
    done += static_cast<std::size_t>(n);
  }
}

void OutputFile::resize(std::int64_t bytes) {
  if (::ftruncate(descriptor_, bytes) != 0) fail_with_errno("resize", path_);
}

void OutputFile::close() {
  if (::fsync(descriptor_) != 0) fail_with_errno("sync", path_);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_with_errno("close", path_);
}

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path), temporary_(temporary_name(path)), file_(temporary_) {}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (!committed_) std::filesystem::remove(temporary_, ignored);
}

void AtomicFile::commit() {
  file_.close();
  rename_durably(temporary_, path_);
  committed_ = true;
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_with_errno("rename to " + to.string(), from);
  sync_to_disk(to.has_parent_path() ? to.parent_path() : ".");
}

}  // namespace oxrse::io

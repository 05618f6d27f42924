#include "io/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "engine/core/error.h"

namespace oxrse::io {
namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags, mode_t mode = 0644) : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {
    require(fd_ >= 0, "cannot open {}: {}", path.string(), std::strerror(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

void write_all(const std::filesystem::path& path, std::string_view contents) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL);
  while (!contents.empty()) {
    const ssize_t written = ::write(file.get(), contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    require(written >= 0, "cannot write {}: {}", path.string(), std::strerror(errno));
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  require(::fsync(file.get()) == 0, "cannot sync {}: {}", path.string(), std::strerror(errno));
}

void make_parents(const std::filesystem::path& path) {
  if (!path.has_parent_path()) return;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  require(!error, "cannot make the directory {}: {}", path.parent_path().string(), error.message());
}

std::filesystem::path parent_of(const std::filesystem::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);  // nobody may ever write to a pipe
  struct stat status {};
  require(::fstat(file.get(), &status) == 0, "cannot read {}: {}", path.string(), std::strerror(errno));
  require(S_ISREG(status.st_mode), "{} is not a regular file", path.string());
  size_ = status.st_size;
  if (size_ == 0) return;
  void* memory = ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_PRIVATE, file.get(), 0);
  require(memory != MAP_FAILED, "cannot map {} ({} bytes): {}", path.string(), size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(memory);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<int> calls{0};
  char host[64] = "";
  ::gethostname(host, sizeof host - 1);
  std::filesystem::path name = path;
  name += fmt::format(".{}.{}.{}.tmp", host, ::getpid(), calls++);
  return name;
}

void sync_to_disk(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY);
  require(::fsync(file.get()) == 0, "cannot sync {}: {}", path.string(), std::strerror(errno));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  make_parents(path);
  const std::filesystem::path temporary = temporary_name(path);
  std::error_code error;
  try {
    write_all(temporary, contents);
    std::filesystem::rename(temporary, path, error);
    require(!error, "cannot rename {} to {}: {}", temporary.string(), path.string(), error.message());
  } catch (...) {
    std::filesystem::remove(temporary, error);
    throw;
  }
  sync_to_disk(parent_of(path));
}

void make_directory_atomically(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& fill) {
  make_parents(path);
  const std::filesystem::path temporary = temporary_name(path);
  std::error_code error;
  try {
    std::filesystem::create_directory(temporary);
    fill(temporary);
    sync_to_disk(temporary);
    std::filesystem::rename(temporary, path, error);
    require(!error || std::filesystem::is_directory(path), "cannot rename {} to {}: {}", temporary.string(), path.string(),
            error.message());
  } catch (...) {
    std::filesystem::remove_all(temporary, error);
    throw;
  }
  if (error) std::filesystem::remove_all(temporary, error);
  sync_to_disk(parent_of(path));
}

std::string read_file(const std::filesystem::path& path) { return std::string(MappedFile(path).text()); }

}  // namespace oxrse::io

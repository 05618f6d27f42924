#include "io/mapped_output.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/core/error.h"

namespace oxrse::io {

MappedOutput::MappedOutput(const std::filesystem::path& path, std::int64_t bytes) : bytes_(bytes) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  require(descriptor >= 0, "cannot create {}: {}", path.string(), std::strerror(errno));
  const int error = bytes > 0 ? ::posix_fallocate(descriptor, 0, bytes) : 0;
  void* memory = error == 0 && bytes > 0
                     ? ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
                     : nullptr;
  const int map_error = errno;
  ::close(descriptor);
  if (error != 0 || memory == MAP_FAILED) ::unlink(path.c_str());
  require(error == 0, "no room for {} ({} bytes): {}", path.string(), bytes, std::strerror(error));
  require(memory != MAP_FAILED, "cannot map {} ({} bytes): {}", path.string(), bytes, std::strerror(map_error));
  data_ = static_cast<std::byte*>(memory);
}

MappedOutput::MappedOutput(MappedOutput&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MappedOutput::~MappedOutput() {
  if (data_ != nullptr) ::munmap(data_, static_cast<std::size_t>(bytes_));
}

}  // namespace oxrse::io

#include "io/metrics/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/core/error.h"

namespace oxrse::io {

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  require(descriptor_ >= 0, "cannot open {}: {}", path_.string(), std::strerror(errno));
}

AppendFile::AppendFile(AppendFile&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendFile::append(std::string_view record) {
  const off_t before = ::lseek(descriptor_, 0, SEEK_END);
  while (!record.empty()) {
    const ssize_t n = ::write(descriptor_, record.data(), record.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int code = errno;
      const bool cut = ::ftruncate(descriptor_, before) == 0;
      fail("cannot write {}: {}{}", path_.string(), std::strerror(code), cut ? "" : "; its last record is incomplete");
    }
    record.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace oxrse::io

#include "io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/core/error.h"

namespace oxrse::io {

FileLock::FileLock(const std::filesystem::path& path) : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  require(descriptor_ >= 0, "cannot open {}: {}", path.string(), std::strerror(errno));
  held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace oxrse::io

#include "engine/train/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "io/files.h"

namespace oxrse::train {

RunDirectory::RunDirectory(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code code;
  std::filesystem::create_directories(path_, code);
  require(!code, "{}: cannot make the run directory ({}): set run.dir to a place that can be written", path_.string(), code.message());
  const std::string file = (path_ / ".lock").string();
  lock_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  require(lock_ >= 0, "{}: cannot be written ({}): set run.dir to a place that can", file, std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_);
    fail("{}: another process is training in this run directory: wait for it, or set run.dir to another one", path_.string());
  }
  remove_unfinished();
}

void RunDirectory::remove_unfinished() const {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.is_regular_file(ignored) && entry.path().extension() == ".tmp") std::filesystem::remove(entry.path(), ignored);
  }
}

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) close(lock_);
}

void RunDirectory::write_config(const Json& config) const { io::write_file_atomically(path_ / "config.json", config.dump(2) + "\n"); }

void RunDirectory::write_tokenizer(const std::string& tokenizer_json) const {
  if (!tokenizer_json.empty()) io::write_file_atomically(path_ / "tokenizer.json", tokenizer_json);
}

}  // namespace oxrse::train

#include "engine/train/run_directory.h"

#include <random>
#include <utility>

#include "io/files.h"

namespace oxrse::train {

RunDirectory::RunDirectory(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code code;
  std::filesystem::create_directories(path_, code);
  require(!code, "{}: cannot make the run directory ({}): set run.dir to a place that can be written", path_.string(), code.message());
  lock_.emplace(path_ / ".lock");
  require(lock_->held(), "{}: another process is training in this run directory: wait for it, or set run.dir to another one",
          path_.string());
  remove_unfinished();
}

std::string RunDirectory::id() const {
  const std::filesystem::path file = path_ / ".id";
  if (!std::filesystem::exists(file)) {
    std::random_device random;
    io::write_file_atomically(file, fmt::format("{:08x}{:08x}", random(), random()));
  }
  return io::read_file(file);
}

void RunDirectory::remove_unfinished() const {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.is_regular_file(ignored) && entry.path().extension() == ".tmp") std::filesystem::remove(entry.path(), ignored);
  }
}

void RunDirectory::write_config(const Json& config) const { io::write_file_atomically(path_ / "config.json", config.dump(2) + "\n"); }

void RunDirectory::write_tokenizer(const std::string& tokenizer_json) const {
  if (!tokenizer_json.empty()) io::write_file_atomically(path_ / "tokenizer.json", tokenizer_json);
}

}  // namespace oxrse::train

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/core/json.h"
#include "io/file_lock.h"

namespace oxrse::train {

/// The directory of a run, held by one process at a time.
class RunDirectory {
 public:
  /// Makes the directory and takes its lock; an Error says when another process is training there.
  explicit RunDirectory(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  [[nodiscard]] std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }

  /// Drawn at random when the directory was made; tells it from another one that was there before.
  [[nodiscard]] std::string id() const;

  void write_config(const Json& config) const;
  void write_tokenizer(const std::string& tokenizer_json) const;

 private:
  /// Files that a process that was killed did not finish writing.
  void remove_unfinished() const;

  std::filesystem::path path_;
  std::optional<io::FileLock> lock_;
};

}  // namespace oxrse::train

#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "cuda/runtime/api.h"

namespace oxrse::cuda {

/// The algorithms that were the fastest on this device, kept in a file: they are measured once, and a later run takes the same and so gives
/// the same bits.
class AlgorithmCache {
 public:
  /// `owner`: device and version of the library. A file of another owner, or one that is damaged, counts as empty. An empty path keeps
  /// nothing.
  AlgorithmCache(std::filesystem::path file, std::string owner);

  [[nodiscard]] std::optional<Algorithm> find(const std::string& key) const;
  void add(const std::string& key, const Algorithm& algorithm);
  /// Writes what was added since, beside what other processes have written; atomically. Nothing depends on it: a file that cannot be
  /// written is left out.
  void save();

 private:
  [[nodiscard]] std::map<std::string, Algorithm> read() const;

  std::filesystem::path file_;
  std::string owner_;
  std::map<std::string, Algorithm> known_;
  bool changed_ = false;
};

/// Where the cache of this owner lies: in $XDG_CACHE_HOME/oxrse or ~/.cache/oxrse; empty without a home.
std::filesystem::path algorithm_cache_file(const std::string& owner);

}  // namespace oxrse::cuda

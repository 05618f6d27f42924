#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "io/checkpoint/entry.h"
#include "io/checkpoint/shard.h"

namespace oxrse::io {

/// Finds pieces that an earlier checkpoint has with the same bytes, and makes hard links to the files they are in.
class Linker {
 public:
  /// Links are made in `directory`. Without a base nothing is found.
  Linker(std::filesystem::path directory, const BaseCheckpoint* base) : directory_(std::move(directory)), base_(base) {}

  /// The entry as the base has it, whose piece's `file` is 1 for files()[0], 2 for files()[1], ...; nothing when it has other bytes there,
  /// or in other pieces, or its file is damaged or cannot be linked to.
  std::optional<StoredTensor> link(const CheckpointEntry& entry, const ConstTensor& elements);
  /// What was linked to.
  [[nodiscard]] const std::vector<StoredFile>& files() const { return files_; }

 private:
  std::optional<std::size_t> link_file(std::size_t base_file);

  std::filesystem::path directory_;
  const BaseCheckpoint* base_;
  std::vector<StoredFile> files_;
  std::map<std::size_t, std::optional<std::size_t>> index_;  // of the base's files in files_; nothing: not to be linked to
};

}  // namespace oxrse::io

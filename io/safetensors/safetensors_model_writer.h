#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/safetensors/safetensors_writer.h"

namespace oxrse::io {

/// Writes the weights of a model into a directory, one tensor after the other: model.safetensors, or, when that would have more than
/// `most_bytes` of data, model-00001-of-0000N.safetensors, ... and model.safetensors.index.json. A tensor is never cut, so a file can be
/// larger when one tensor is.
class SafetensorsModelWriter {
 public:
  /// The tensors in the order in which they will be written.
  SafetensorsModelWriter(std::filesystem::path directory, const std::vector<SafetensorsEntry>& entries, std::int64_t most_bytes);

  /// The next tensor: contiguous, of the announced type and as many elements.
  void write(const ConstTensor& tensor);
  /// Writes the index. An Error when tensors are missing.
  void commit();

 private:
  struct Shard {
    std::vector<SafetensorsEntry> entries;
    std::int64_t bytes = 0;
  };
  [[nodiscard]] std::string name_of_shard(std::size_t i) const;
  void write_index() const;

  std::filesystem::path directory_;
  std::vector<Shard> shards_;
  std::size_t shard_ = 0, written_ = 0;  // the one that is being written, and how many of its tensors are
  std::unique_ptr<SafetensorsWriter> writer_;
};

}  // namespace oxrse::io

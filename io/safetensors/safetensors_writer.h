#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "io/file_stream.h"

namespace oxrse::io {

/// What a tensor to write is called and looks like.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::None;
  std::vector<std::int64_t> shape;
};

/// Writes a safetensors file one tensor after the other, so that only one has to be in memory. The file appears on `commit`.
class SafetensorsWriter {
 public:
  /// The tensors in the order in which they will be written. Every one starts on a multiple of its element's size when the wider
  /// types come first.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries);

  /// The next tensor: contiguous, of the announced type and as many elements.
  void write(const ConstTensor& tensor);
  /// An Error when tensors are missing.
  void commit();

 private:
  std::vector<SafetensorsEntry> entries_;
  std::size_t next_ = 0;
  AtomicFile file_;
};

}  // namespace oxrse::io

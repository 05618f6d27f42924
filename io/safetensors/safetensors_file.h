#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "io/files.h"

namespace oxrse::io {

/// A tensor in a safetensors file.
struct SafeTensor {
  std::string dtype;  // as the format spells it: "F32", "BF16", "I64", "F8_E4M3", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  // bytes in the file
};

/// "F32" for f32 and so on; an Error for what the engine does not compute with.
std::string safetensors_name(DType type);
DType dtype_of_safetensors(std::string_view name);

/// A safetensors file (https://github.com/huggingface/safetensors, "Format"), mapped. Opening checks all of it: the header's size and
/// syntax, that names are unique, and that the tensors' bytes match their shapes and fill the file without holes or overlaps. An
/// Error names the file and the tensor.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::map<std::string, SafeTensor, std::less<>>& tensors() const { return tensors_; }
  [[nodiscard]] bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  /// An Error when there is no such tensor.
  [[nodiscard]] const SafeTensor& at(std::string_view name) const;
  /// The bytes of a tensor, little-endian and row-major; the address may be odd.
  [[nodiscard]] std::span<const std::byte> bytes(const SafeTensor& tensor) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, SafeTensor, std::less<>> tensors_;
};

}  // namespace oxrse::io

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors/safetensors_file.h"

namespace oxrse::io {

/// The weights in a directory: model.safetensors, or the files that model.safetensors.index.json lists.
class SafetensorsModel {
 public:
  /// An Error names what is missing, or a tensor that the index has and its file has not, or that two files have.
  explicit SafetensorsModel(const std::filesystem::path& directory);

  [[nodiscard]] bool has(std::string_view name) const { return where_.find(name) != where_.end(); }
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] const SafeTensor& at(std::string_view name) const { return file_of(name).at(name); }
  [[nodiscard]] std::span<const std::byte> bytes(std::string_view name) const;

 private:
  void add_file(const std::filesystem::path& path);
  void read_index(const std::filesystem::path& index);
  [[nodiscard]] const SafetensorsFile& file_of(std::string_view name) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t, std::less<>> where_;  // tensor name -> index of its file
  std::filesystem::path directory_;
};

}  // namespace oxrse::io

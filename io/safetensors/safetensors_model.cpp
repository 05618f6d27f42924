#include "io/safetensors/safetensors_model.h"

#include <set>

#include "engine/core/json.h"

namespace oxrse::io {

SafetensorsModel::SafetensorsModel(const std::filesystem::path& directory) : directory_(directory) {
  const std::filesystem::path single = directory / "model.safetensors", index = directory / "model.safetensors.index.json";
  if (std::filesystem::exists(single)) {
    add_file(single);
  } else {
    require(std::filesystem::exists(index), "{} has neither model.safetensors nor model.safetensors.index.json", directory.string());
    read_index(index);
  }
}

void SafetensorsModel::add_file(const std::filesystem::path& path) {
  const SafetensorsFile& file = files_.emplace_back(path);
  for (const auto& [name, tensor] : file.tensors()) {
    const bool is_new = where_.emplace(name, files_.size() - 1).second;
    require(is_new, "tensor {} is in {} and in {}", name, file_of(name).path().string(), path.string());
  }
}

void SafetensorsModel::read_index(const std::filesystem::path& index) {
  const JsonDocument document = read_json(index.string());
  const JsonNode map = JsonNode(document).at("weight_map");
  map.require(map.value().is_object(), "expected an object, found {}", kind_of(map.value()));
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.value().items()) {
    const JsonNode entry = map.at(tensor);
    entry.require(file.is_string(), "expected a file name, found {}", shown(file));
    const auto name = file.get<std::string>();
    entry.require(!name.empty() && name.find('/') == std::string::npos && name != "..", "{} is no file name in this directory",
                  shown(file));
    if (names.insert(name).second) add_file(directory_ / name);
  }
  for (const auto& [tensor, file] : map.value().items()) {
    require(has(tensor) && file_of(tensor).path().filename() == file.get<std::string>(), "{} says that {} holds tensor {}, but it does not",
            index.string(), file.get<std::string>(), tensor);
  }
}

std::vector<std::string> SafetensorsModel::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : where_) names.push_back(name);
  return names;
}

const SafetensorsFile& SafetensorsModel::file_of(std::string_view name) const {
  const auto found = where_.find(name);
  require(found != where_.end(), "{} has no tensor {}", directory_.string(), name);
  return files_[found->second];
}

std::span<const std::byte> SafetensorsModel::bytes(std::string_view name) const {
  const SafetensorsFile& file = file_of(name);
  return file.bytes(file.at(name));
}

}  // namespace oxrse::io

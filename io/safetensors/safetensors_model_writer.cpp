#include "io/safetensors/safetensors_model_writer.h"

#include <utility>

#include "engine/core/json.h"
#include "io/files.h"

namespace oxrse::io {
namespace {

std::int64_t bytes_of(const SafetensorsEntry& entry) {
  std::int64_t bytes = size_of(entry.dtype);
  for (const std::int64_t size : entry.shape) bytes *= size;
  return bytes;
}

}  // namespace

SafetensorsModelWriter::SafetensorsModelWriter(std::filesystem::path directory, const std::vector<SafetensorsEntry>& entries,
                                               std::int64_t most_bytes)
    : directory_(std::move(directory)), shards_(1) {
  require(most_bytes > 0, "files of at most {} bytes", most_bytes);
  for (const SafetensorsEntry& entry : entries) {
    const std::int64_t bytes = bytes_of(entry);
    if (shards_.back().bytes > 0 && shards_.back().bytes + bytes > most_bytes) shards_.emplace_back();
    shards_.back().entries.push_back(entry);
    shards_.back().bytes += bytes;
  }
}

std::string SafetensorsModelWriter::name_of_shard(std::size_t i) const {
  if (shards_.size() == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards_.size());
}

void SafetensorsModelWriter::write(const ConstTensor& tensor) {
  require(shard_ < shards_.size(), "more tensors written than announced");
  const Shard& shard = shards_[shard_];
  if (!writer_) writer_ = std::make_unique<SafetensorsWriter>(directory_ / name_of_shard(shard_), shard.entries);
  writer_->write(tensor);
  if (++written_ < shard.entries.size()) return;
  writer_->commit();
  writer_.reset();
  written_ = 0;
  ++shard_;
}

void SafetensorsModelWriter::commit() {
  require(shard_ == shards_.size(), "tensor {} was announced but not written",
          shard_ < shards_.size() ? shards_[shard_].entries[written_].name : "");
  if (shards_.size() > 1) write_index();
}

void SafetensorsModelWriter::write_index() const {
  Json map = Json::object();
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    bytes += shards_[i].bytes;
    for (const SafetensorsEntry& entry : shards_[i].entries) map[entry.name] = name_of_shard(i);
  }
  const Json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  write_file_atomically(directory_ / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace oxrse::io

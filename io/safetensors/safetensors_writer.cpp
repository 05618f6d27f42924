#include "io/safetensors/safetensors_writer.h"

#include <cstring>

#include "engine/core/json.h"
#include "io/safetensors/safetensors_file.h"

namespace oxrse::io {
namespace {

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

/// The length and the header, padded with spaces so that the data start on a multiple of 8.
std::string header_of(const std::vector<SafetensorsEntry>& entries) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::int64_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::int64_t end = offset + count_of(entry.shape) * size_of(entry.dtype);
    require(!header.contains(entry.name), "two tensors to write are called {}", entry.name);
    header[entry.name] = {{"dtype", safetensors_name(entry.dtype)}, {"shape", entry.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries)
    : entries_(std::move(entries)), file_(path) {
  file_.write(header_of(entries_));
}

void SafetensorsWriter::write(const ConstTensor& tensor) {
  require(next_ < entries_.size(), "more tensors written than announced");
  const SafetensorsEntry& entry = entries_[next_++];
  require(tensor.contiguous() && tensor.dtype() == entry.dtype && tensor.count() == count_of(entry.shape), "{} written as {}", entry.name,
          tensor.describe());
  file_.write(std::span(tensor.address(), static_cast<std::size_t>(tensor.bytes())));
}

void SafetensorsWriter::commit() {
  require(next_ == entries_.size(), "tensor {} was announced but not written", next_ < entries_.size() ? entries_[next_].name : "");
  file_.commit();
}

}  // namespace oxrse::io

#include "io/safetensors/safetensors_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "engine/core/json.h"

namespace oxrse::io {
namespace {

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kLargestHeader = 100'000'000;
constexpr int kDeepest = 3;  // the object, a tensor, its shape

struct Spelling {
  std::string_view name;
  std::int64_t bytes;
  DType type;
};
constexpr std::array kSpellings = {
    Spelling{"F64", 8, DType::F64},   Spelling{"F32", 4, DType::F32},      Spelling{"BF16", 2, DType::BF16},
    Spelling{"F16", 2, DType::F16},   Spelling{"I32", 4, DType::I32},      Spelling{"I64", 8, DType::None},
    Spelling{"U64", 8, DType::None},  Spelling{"U32", 4, DType::None},     Spelling{"I16", 2, DType::None},
    Spelling{"U16", 2, DType::None},  Spelling{"I8", 1, DType::None},      Spelling{"U8", 1, DType::None},
    Spelling{"BOOL", 1, DType::None}, Spelling{"F8_E4M3", 1, DType::None}, Spelling{"F8_E5M2", 1, DType::None},
};

/// Parses the header, refusing what the format forbids but JSON allows.
Json parse_header(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) require(depth < kDeepest, "it is nested too deeply");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      require(keys.back().insert(value.get<std::string>()).second, "'{}' appears twice", value.get<std::string>());
    }
    return true;
  };
  require(!text.empty() && text.front() == '{', "it does not start with '{{'");
  Json header = Json::parse(text, check);
  require(header.is_object(), "it is no object");
  return header;
}

std::int64_t non_negative(const Json& value) {
  require(value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX, "{} is no size", value.dump());
  return value.get<std::int64_t>();
}

std::int64_t bytes_needed(const SafeTensor& tensor) {
  const auto* spelling = std::find_if(kSpellings.begin(), kSpellings.end(), [&](const Spelling& s) { return s.name == tensor.dtype; });
  require(spelling != kSpellings.end(), "unknown dtype '{}'", tensor.dtype);
  std::int64_t bytes = spelling->bytes;
  for (const std::int64_t size : tensor.shape) require(!__builtin_mul_overflow(bytes, size, &bytes), "its shape overflows 63 bits");
  return bytes;
}

SafeTensor read_tensor(const Json& json, std::int64_t data_begin, std::int64_t data_bytes) {
  require(json.is_object() && json.size() == 3, "expected dtype, shape and data_offsets");
  require(json.at("dtype").is_string() && json.at("shape").is_array(), "dtype must be a text and shape a list of sizes");
  SafeTensor tensor;
  tensor.dtype = json.at("dtype").get<std::string>();
  tensor.shape.reserve(json.at("shape").size());
  for (const Json& size : json.at("shape")) tensor.shape.push_back(non_negative(size));
  const Json& offsets = json.at("data_offsets");
  require(offsets.is_array() && offsets.size() == 2, "data_offsets must be two numbers");
  const std::int64_t begin = non_negative(offsets[0]), end = non_negative(offsets[1]);
  require(begin <= end && end <= data_bytes, "bytes {} to {} of {} bytes of data", begin, end, data_bytes);
  const std::int64_t needed = bytes_needed(tensor);
  require(needed == end - begin, "{} bytes for a shape and dtype that need {}", end - begin, needed);
  tensor.begin = data_begin + begin;
  tensor.end = data_begin + end;
  return tensor;
}

void check_metadata(const Json& json) {
  require(json.is_object() && std::all_of(json.begin(), json.end(), [](const Json& value) { return value.is_string(); }),
          "__metadata__ must hold strings only");
}

/// The tensors' bytes, in order, must leave no byte out and use none twice.
void check_coverage(const std::map<std::string, SafeTensor, std::less<>>& tensors, std::int64_t begin, std::int64_t end) {
  std::vector<const std::pair<const std::string, SafeTensor>*> ordered;
  ordered.reserve(tensors.size());
  for (const auto& entry : tensors) ordered.push_back(&entry);
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  for (const auto* entry : ordered) {
    require(entry->second.begin == begin, "tensor {} begins at byte {} where {} is the next that is free", entry->first,
            entry->second.begin, begin);
    begin = entry->second.end;
  }
  require(begin == end, "{} bytes after the last tensor", end - begin);
}

}  // namespace

std::string safetensors_name(DType type) {
  const auto* spelling = std::find_if(kSpellings.begin(), kSpellings.end(), [&](const Spelling& s) { return s.type == type; });
  require(spelling != kSpellings.end() && type != DType::None, "{} cannot be written as safetensors", name_of(type));
  return std::string(spelling->name);
}

DType dtype_of_safetensors(std::string_view name) {
  const auto* spelling = std::find_if(kSpellings.begin(), kSpellings.end(), [&](const Spelling& s) { return s.name == name; });
  require(spelling != kSpellings.end() && spelling->type != DType::None, "dtype {} is not supported; F64, F32, BF16 and F16 are", name);
  return spelling->type;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  const auto refuse = [&](std::string_view what, std::string_view why) { fail("{}: {}: {}", path.string(), what, why); };
  std::uint64_t length = 0;
  if (file_.size() < kLengthBytes) refuse("no safetensors file", fmt::format("it has only {} bytes", file_.size()));
  std::memcpy(&length, file_.data(), sizeof length);
  if (length > static_cast<std::uint64_t>(std::min(kLargestHeader, file_.size() - kLengthBytes))) {
    refuse("no safetensors file",
           fmt::format("a header of {} bytes in a file of {} (at most {} are allowed)", length, file_.size(), kLargestHeader));
  }
  const std::int64_t data_begin = kLengthBytes + static_cast<std::int64_t>(length);
  std::string where = "the header";
  try {
    const Json header = parse_header(file_.text().substr(kLengthBytes, length));
    for (const auto& [name, value] : header.items()) {
      where = name == "__metadata__" ? "the header" : "tensor " + name;
      if (name == "__metadata__") {
        check_metadata(value);
      } else {
        tensors_.emplace(name, read_tensor(value, data_begin, file_.size() - data_begin));
      }
    }
    where = "the data";
    check_coverage(tensors_, data_begin, file_.size());
  } catch (const Error& error) {
    refuse(where, error.what());
  } catch (const Json::exception& error) {
    refuse(where, error.what());
  }
}

const SafeTensor& SafetensorsFile::at(std::string_view name) const {
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), "{} has no tensor {}", path_.string(), name);
  return found->second;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafeTensor& tensor) const {
  return file_.bytes().subspan(static_cast<std::size_t>(tensor.begin), static_cast<std::size_t>(tensor.end - tensor.begin));
}

}  // namespace oxrse::io

#include "io/data/journal.h"

#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/json.h"
#include "io/data/token_shard.h"
#include "io/files.h"

namespace oxrse::io {
namespace {

constexpr int kVersion = 1;

template <class T>
Json packed(const std::vector<T>& values) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Json::binary(std::move(bytes));
}

template <class T>
std::vector<T> unpacked(std::span<const std::uint8_t> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <class T>
std::vector<T> unpacked(const Json& json) {
  return unpacked<T>(std::span<const std::uint8_t>(json.get_binary()));
}

Json to_json(const TextPosition& at) {
  return {{"file", at.file},
          {"byte", at.byte},
          {"line", at.line},
          {"found_document", at.found_document},
          {"bytes_read", at.bytes_read},
          {"empty", at.report.empty},
          {"duplicates", at.report.duplicates},
          {"invalid", at.report.invalid},
          {"reasons", at.report.reasons}};
}

TextPosition position_from(const Json& json) {
  return {.file = json.at("file"),
          .byte = json.at("byte"),
          .line = json.at("line"),
          .found_document = json.at("found_document"),
          .bytes_read = json.at("bytes_read"),
          .report = {.empty = json.at("empty"),
                     .duplicates = json.at("duplicates"),
                     .invalid = json.at("invalid"),
                     .reasons = json.at("reasons").get<std::vector<std::string>>()}};
}

Json to_json(const std::vector<DatasetWriter::Part>& parts) {
  Json list = Json::array();
  for (const auto& part : parts) list.push_back(Json::array({part.name, part.tokens, part.documents}));
  return list;
}

std::vector<DatasetWriter::Part> parts_from(const Json& json) {
  std::vector<DatasetWriter::Part> parts;
  for (const Json& part : json) parts.push_back({part.at(0), part.at(1), part.at(2)});
  return parts;
}

Json to_json(const DatasetWriter::State& state) {
  return {{"in_document", state.in_document}, {"shard", packed(state.shard)},
          {"starts", packed(state.starts)},   {"shards", to_json(state.shards)},
          {"files", to_json(state.files)},    {"tokens", state.tokens},
          {"documents", state.documents},     {"tokens_of_files", state.tokens_of_files}};
}

DatasetWriter::State writer_from(const Json& json) {
  return {.in_document = json.at("in_document"),
          .shard = unpacked<std::int32_t>(json.at("shard")),
          .starts = unpacked<std::int64_t>(json.at("starts")),
          .shards = parts_from(json.at("shards")),
          .files = parts_from(json.at("files")),
          .tokens = json.at("tokens"),
          .documents = json.at("documents"),
          .tokens_of_files = json.at("tokens_of_files")};
}

void remove_files(const std::filesystem::path& directory, const std::function<bool(const std::filesystem::path&)>& unwanted) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (unwanted(entry.path())) found.push_back(entry.path());
  }
  for (const auto& path : found) std::filesystem::remove(path);
}

}  // namespace

Journal::Journal(std::filesystem::path directory, std::uint64_t key) : directory_(std::move(directory)), key_(key) {
  if (std::filesystem::exists(file())) read();
  remove_unsaved();
}

std::filesystem::path Journal::documents_file(std::int64_t i) const { return directory_ / fmt::format(".journal_{:05}.documents", i); }

void Journal::read() {
  try {
    const Json json = Json::from_cbor(read_file(file()));
    require(json.at("version") == kVersion, "it is of version {}, this program knows version {}", json.at("version").dump(), kVersion);
    require(json.at("key") == key_, "it was begun with other files, another tokenizer or other options; give the same ones to go on");
    saves_ = json.at("saves");
    state_ = State{.reader = position_from(json.at("reader")), .writer = writer_from(json.at("writer")), .documents = {}};
    for (const DatasetWriter::Part& shard : state_->writer.shards) {
      const auto there = open_token_shard(directory_ / shard.name)->size();
      require(there == shard.tokens, "{} has {} tokens, expected {}", shard.name, there, shard.tokens);
    }
    for (std::int64_t i = 0; i < saves_; ++i) {
      const MappedFile bytes(documents_file(i));
      const auto hashes = unpacked<Hash128>({reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<std::size_t>(bytes.size())});
      state_->documents.insert(state_->documents.end(), hashes.begin(), hashes.end());
    }
  } catch (const std::exception& error) {  // of the JSON library or ours
    fail("{} holds unfinished work that cannot go on: {}. Remove it to begin anew", directory_.string(), error.what());
  }
}

/// Shards and hashes that were written after the last save, and what was being written.
void Journal::remove_unsaved() const {
  std::set<std::filesystem::path> saved = {file(), directory_ / ".lock"};
  for (std::int64_t i = 0; i < saves_; ++i) saved.insert(documents_file(i));
  if (state_) {
    for (const DatasetWriter::Part& shard : state_->writer.shards) saved.insert(directory_ / shard.name);
  }
  remove_files(directory_, [&](const std::filesystem::path& path) { return !saved.contains(path); });
}

void Journal::save(const TextPosition& reader, const DatasetWriter::State& writer) {
  const auto hashes = std::as_bytes(std::span(documents_));
  write_file_atomically(documents_file(saves_), {reinterpret_cast<const char*>(hashes.data()), hashes.size()});
  documents_.clear();
  ++saves_;
  const Json json = {{"version", kVersion}, {"key", key_}, {"saves", saves_}, {"reader", to_json(reader)}, {"writer", to_json(writer)}};
  const std::vector<std::uint8_t> bytes = Json::to_cbor(json);
  write_file_atomically(file(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void Journal::erase(const std::filesystem::path& directory) {
  remove_files(directory, [](const std::filesystem::path& path) { return path.filename().string().starts_with(".journal"); });
}

}  // namespace oxrse::io

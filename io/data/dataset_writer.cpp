#include "io/data/dataset_writer.h"

#include <algorithm>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/json.h"
#include "io/checksum.h"
#include "io/data/hdf5_shard.h"
#include "io/data/token_stream.h"
#include "io/files.h"

namespace oxrse::io {

DatasetWriter::DatasetWriter(std::filesystem::path directory, const Tokenizer& tokenizer, std::int64_t tokens_per_shard)
    : directory_(std::move(directory)), tokenizer_(tokenizer), tokens_per_shard_(tokens_per_shard) {
  require(tokens_per_shard > 0, "shards of {} tokens", tokens_per_shard);
}

void DatasetWriter::add(std::span<const std::int32_t> tokens) {
  if (tokens.empty()) return;
  if (!state_.in_document) {
    if (is_full()) write_shard();
    state_.starts.push_back(static_cast<std::int64_t>(state_.shard.size()));
    ++state_.documents;
    state_.in_document = true;
  }
  while (!tokens.empty()) {
    if (is_full()) write_shard();
    const std::size_t n = std::min(static_cast<std::size_t>(tokens_per_shard_) - state_.shard.size(), tokens.size());
    state_.shard.insert(state_.shard.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
    state_.tokens += static_cast<std::int64_t>(n);
    tokens = tokens.subspan(n);
  }
}

void DatasetWriter::end_document() {
  if (const auto end = tokenizer_.end_of_text()) add(std::span(&*end, 1));
  state_.in_document = false;
}

void DatasetWriter::end_file(const std::string& name) {
  state_.files.push_back({name, state_.tokens - state_.tokens_of_files, 0});
  state_.tokens_of_files = state_.tokens;
}

void DatasetWriter::write_shard() {
  const std::string name = fmt::format("shard_{:05}.h5", state_.shards.size());
  write_hdf5_shard(
      directory_ / name,
      {.tokens = state_.shard, .documents = state_.starts, .vocab = tokenizer_.vocab_size(), .tokenizer = tokenizer_.fingerprint()});
  state_.shards.push_back({name, static_cast<std::int64_t>(state_.shard.size()), static_cast<std::int64_t>(state_.starts.size())});
  state_.shard.clear();
  state_.starts.clear();
}

void DatasetWriter::finish(const TextReport& report) {
  require(state_.tokens > 0, "there are no tokens to write: every document was left out ({} invalid){}", report.invalid,
          report.reasons.empty() ? "" : ", the first: " + report.reasons.front());
  if (!state_.shard.empty()) write_shard();
  Json shards = Json::array();
  for (const Part& part : state_.shards) shards.push_back({{"file", part.name}, {"tokens", part.tokens}, {"documents", part.documents}});
  Json files = Json::array();
  for (const Part& part : state_.files) files.push_back({{"file", part.name}, {"tokens", part.tokens}});
  const Json index = {
      {"format", "oxrse tokens"},
      {"version", 1},
      {"tokens", state_.tokens},
      {"documents", state_.documents},
      {"vocab", tokenizer_.vocab_size()},
      {"tokenizer", hex(tokenizer_.fingerprint())},
      {"left_out", {{"empty", report.empty}, {"duplicates", report.duplicates}, {"invalid", report.invalid}, {"reasons", report.reasons}}},
      {"shards", shards},
      {"files", files}};
  tokenizer_.save((directory_ / "tokenizer.json").string());
  write_file_atomically(directory_ / "dataset.json", index.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace oxrse::io

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
    : directory_(std::move(directory)), tokenizer_(tokenizer), tokens_per_shard_(tokens_per_shard) {}

void DatasetWriter::add(std::span<const std::int32_t> tokens) {
  if (tokens.empty()) return;
  if (!in_document_) {
    if (static_cast<std::int64_t>(shard_.size()) == tokens_per_shard_) write_shard();
    starts_.push_back(static_cast<std::int64_t>(shard_.size()));
    ++documents_;
    in_document_ = true;
  }
  while (!tokens.empty()) {
    if (static_cast<std::int64_t>(shard_.size()) == tokens_per_shard_) write_shard();
    const std::size_t n = std::min(static_cast<std::size_t>(tokens_per_shard_) - shard_.size(), tokens.size());
    shard_.insert(shard_.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
    tokens_ += static_cast<std::int64_t>(n);
    tokens = tokens.subspan(n);
  }
}

void DatasetWriter::end_document() {
  if (const auto end = tokenizer_.end_of_text()) add(std::span(&*end, 1));
  in_document_ = false;
}

void DatasetWriter::end_file(const std::string& name) {
  files_.push_back({name, tokens_ - tokens_of_files_, 0});
  tokens_of_files_ = tokens_;
}

void DatasetWriter::write_shard() {
  const std::string name = fmt::format("shard_{:05}.h5", shards_.size());
  write_hdf5_shard(directory_ / name,
                   {.tokens = shard_, .documents = starts_, .vocab = tokenizer_.vocab_size(), .tokenizer = tokenizer_.fingerprint()});
  shards_.push_back({name, static_cast<std::int64_t>(shard_.size()), static_cast<std::int64_t>(starts_.size())});
  shard_.clear();
  starts_.clear();
}

void DatasetWriter::finish() {
  if (!shard_.empty()) write_shard();
  Json shards = Json::array();
  for (const Part& part : shards_) shards.push_back({{"file", part.name}, {"tokens", part.tokens}, {"documents", part.documents}});
  Json files = Json::array();
  for (const Part& part : files_) files.push_back({{"file", part.name}, {"tokens", part.tokens}});
  const Json index = {{"format", "oxrse tokens"},
                      {"version", 1},
                      {"tokens", tokens_},
                      {"documents", documents_},
                      {"vocab", tokenizer_.vocab_size()},
                      {"tokenizer", hex(tokenizer_.fingerprint())},
                      {"shards", shards},
                      {"files", files}};
  tokenizer_.save((directory_ / "tokenizer.json").string());
  write_file_atomically(directory_ / "dataset.json", index.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace oxrse::io

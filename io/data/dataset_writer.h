#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {

/// Writes a directory of token shards: shard_00000.h5, ..., tokenizer.json and, last, dataset.json:
///
///     {"format": "oxrse tokens", "version": 1, "tokens": N, "documents": N, "vocab": N, "tokenizer": "fingerprint",
///      "shards": [{"file", "tokens", "documents"}], "files": [{"file", "tokens"}]}
///
/// `files` are the text files the tokens came from, in order; a part can be held out from each. Memory holds one shard.
class DatasetWriter {
 public:
  /// Into an existing, empty directory.
  DatasetWriter(std::filesystem::path directory, const Tokenizer& tokenizer, std::int64_t tokens_per_shard);

  void add(std::span<const std::int32_t> tokens);
  /// Appends the end-of-text token when the tokenizer has one; what is added next is another document.
  void end_document();
  void end_file(const std::string& name);
  /// Writes what is left and dataset.json.
  void finish();

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t documents() const { return documents_; }

 private:
  struct Part {
    std::string name;
    std::int64_t tokens = 0, documents = 0;
  };
  void write_shard();

  std::filesystem::path directory_;
  const Tokenizer& tokenizer_;
  std::int64_t tokens_per_shard_;
  bool in_document_ = false;
  std::vector<std::int32_t> shard_;   // the tokens of the shard that is being filled
  std::vector<std::int64_t> starts_;  // and of its documents
  std::vector<Part> shards_, files_;
  std::int64_t tokens_ = 0, documents_ = 0, tokens_of_files_ = 0;
};

}  // namespace oxrse::io

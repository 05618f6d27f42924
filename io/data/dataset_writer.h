#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/data/text_options.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {

/// Writes a directory of token shards: shard_00000.h5, ..., tokenizer.json and, last, dataset.json:
///
///     {"format": "oxrse tokens", "version": 1, "tokens": N, "documents": N, "vocab": N, "tokenizer": "fingerprint",
///      "left_out": {"empty": N, "duplicates": N, "invalid": N, "reasons": ["..."]},
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
  /// Writes what is left and dataset.json. An Error when there are no tokens at all.
  void finish(const TextReport& report = {});

  struct Part {
    std::string name;
    std::int64_t tokens = 0, documents = 0;
  };
  /// All that the writer knows beyond the shards it has written.
  struct State {
    bool in_document = false;
    std::vector<std::int32_t> shard;   // the tokens of the shard that is being filled
    std::vector<std::int64_t> starts;  // and of its documents
    std::vector<Part> shards, files;   // that are written and read
    std::int64_t tokens = 0, documents = 0, tokens_of_files = 0;
  };
  [[nodiscard]] const State& state() const { return state_; }
  /// Goes on where another writer was in the same directory.
  void go_on(State state) { state_ = std::move(state); }

 private:
  void write_shard();
  [[nodiscard]] bool is_full() const { return static_cast<std::int64_t>(state_.shard.size()) == tokens_per_shard_; }

  std::filesystem::path directory_;
  const Tokenizer& tokenizer_;
  std::int64_t tokens_per_shard_;
  State state_;
};

}  // namespace oxrse::io

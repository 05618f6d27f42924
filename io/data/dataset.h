#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "io/data/token_stream.h"

namespace oxrse::io {

/// One sample, each of T tokens, to be filled. A row of a batch.
struct Row {
  std::span<std::int32_t> inputs;
  std::span<std::int32_t> targets;         // the token after each input; -1 where there is none to predict
  std::span<std::int32_t> positions;       // in the document, or in the row when rows are cut from the stream
  std::span<std::int32_t> document_start;  // the place in the row where the token's document begins
};

/// How samples are made from tokens.
struct DatasetOptions {
  std::int64_t context = 0;                                // T
  std::uint64_t seed = 0;                                  // of the order
  bool shuffled = false;                                   // otherwise samples come as they are in the stream
  bool documents = false;                                  // attention and loss stay inside a document
  std::int64_t vocab = 0;                                  // tokens must be below; 0: any
  std::optional<std::int32_t> end_of_text = std::nullopt;  // ends documents in shards that have no table of them
};

/// Samples of T tokens. Sample i of the stream is tokens [i*T, i*T+T]: the inputs all but the last, the targets all but the first; the
/// tokens after the last whole sample are not used. May be read by several threads at once.
class Dataset {
 public:
  /// `name` stands for the data in messages. An Error says when there is not a single sample.
  Dataset(std::string name, TokenStream stream, const DatasetOptions& options);

  [[nodiscard]] std::int64_t samples_per_epoch() const { return samples_; }
  [[nodiscard]] std::int64_t tokens() const { return stream_.size(); }
  /// Of the tokens and their order in the stream.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }
  /// "kjv.txt: 1234567 tokens, 4822 samples of 256 tokens an epoch, 135 tokens left over; shuffled"
  [[nodiscard]] std::string describe() const;

  /// Sample number `n` from the start of training: after an epoch of samples_per_epoch() the samples start over, in another order when
  /// shuffled. An Error names file and offset of a token outside the vocabulary.
  void read(std::int64_t n, const Row& row) const;

 private:
  /// The place in the stream of sample number `n`.
  [[nodiscard]] std::int64_t sample_of(std::int64_t n) const;
  void check_vocabulary(std::int64_t begin, std::span<const std::int32_t> tokens) const;
  void check_everything() const;
  void separate_documents(std::int64_t begin, std::span<const std::int32_t> tokens, const Row& row) const;

  std::string name_;
  TokenStream stream_;
  DatasetOptions options_;
  std::int64_t samples_;
  std::uint64_t fingerprint_;
};

}  // namespace oxrse::io

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "io/data/dataset.h"
#include "io/data/token_stream.h"

namespace oxrse::io {

/// How samples are made from tokens.
struct DatasetOptions {
  std::int64_t context = 0;                                // T
  std::uint64_t seed = 0;                                  // of the order
  bool shuffled = false;                                   // otherwise samples come as they are in the stream
  bool documents = false;                                  // attention and loss stay inside a document
  std::int64_t vocab = 0;                                  // tokens must be below; 0: any
  std::optional<std::int32_t> end_of_text = std::nullopt;  // ends documents in shards that have no table of them
};

/// Sample i of a stream is tokens [i*T, i*T+T]: the inputs all but the last, the targets all but the first. The tokens after the last whole
/// sample are not used.
class StreamDataset final : public Dataset {
 public:
  /// `name` stands for the data in messages. An Error says when there is not a single sample.
  StreamDataset(std::string name, TokenStream stream, const DatasetOptions& options);

  [[nodiscard]] std::int64_t samples_per_epoch() const override { return samples_; }
  [[nodiscard]] std::int64_t tokens() const override { return stream_.size(); }
  [[nodiscard]] std::uint64_t fingerprint() const override { return fingerprint_; }
  /// "kjv.txt: 1234567 tokens, 4822 samples of 256 tokens an epoch, 135 tokens left over; shuffled"
  [[nodiscard]] std::string describe() const override;
  void read(std::int64_t n, const Row& row) const override;

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

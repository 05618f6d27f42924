#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace oxrse::io {

/// One sample, each of T tokens, to be filled. A row of a batch.
struct Row {
  std::span<std::int32_t> inputs;
  std::span<std::int32_t> targets;         // the token after each input; -1 where there is none to predict
  std::span<std::int32_t> positions;       // in the document, or in the row when rows are cut from the stream
  std::span<std::int32_t> document_start;  // the place in the row where the token's document begins
};

/// Samples of T tokens, numbered from the start of training. May be read by several threads at once.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  /// Samples until they start over.
  [[nodiscard]] virtual std::int64_t samples_per_epoch() const = 0;
  [[nodiscard]] virtual std::int64_t tokens() const = 0;
  /// Of the tokens and their order, not of names: a run can only be continued with the same data.
  [[nodiscard]] virtual std::uint64_t fingerprint() const = 0;
  /// What there is and how it is used, for people.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// Sample number `n`: after an epoch of samples_per_epoch() the samples start over, in another order when shuffled. An Error names file
  /// and offset of a token outside the vocabulary.
  virtual void read(std::int64_t n, const Row& row) const = 0;
};

}  // namespace oxrse::io

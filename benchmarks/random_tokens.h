#pragma once

#include <algorithm>
#include <string>

#include "engine/core/philox.h"
#include "io/data/dataset.h"

namespace oxrse::bench {

/// Samples of random tokens without end, the same ones in every run.
class RandomTokens : public io::Dataset {
 public:
  explicit RandomTokens(std::int64_t vocab) : vocab_(vocab) {}

  [[nodiscard]] std::int64_t samples_per_epoch() const override { return std::int64_t{1} << 30; }
  [[nodiscard]] std::int64_t tokens() const override { return std::int64_t{1} << 40; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return static_cast<std::uint64_t>(vocab_); }
  [[nodiscard]] std::string describe() const override { return "random tokens"; }

  void read(std::int64_t n, const io::Row& row) const override {
    const RandomStream stream(1, static_cast<std::uint64_t>(n));
    for (std::size_t t = 0; t < row.inputs.size(); ++t) {
      row.inputs[t] = token(stream, t);
      row.targets[t] = token(stream, t + 1);
      row.positions[t] = static_cast<std::int32_t>(t);
      row.document_start[t] = 0;
    }
  }

 private:
  [[nodiscard]] std::int32_t token(const RandomStream& stream, std::size_t t) const {
    return static_cast<std::int32_t>(stream.words(t)[0] % static_cast<std::uint64_t>(vocab_));
  }

  std::int64_t vocab_;
};

}  // namespace oxrse::bench

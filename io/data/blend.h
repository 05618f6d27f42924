#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/data/dataset.h"

namespace oxrse::io {

/// Several datasets mixed by weight. Which one sample n comes from is computed, not drawn: among the first n samples, for every n, each
/// dataset has its share of n to within a few samples (one per halving of the list), and takes its own samples in its own order, epoch
/// after epoch. An epoch of the blend is as many samples as the datasets have together.
class BlendDataset final : public Dataset {
 public:
  struct Part {
    std::unique_ptr<Dataset> data;
    double weight = 0;  // above 0; only their ratios matter
  };
  explicit BlendDataset(std::vector<Part> parts);

  [[nodiscard]] std::int64_t samples_per_epoch() const override;
  [[nodiscard]] std::int64_t tokens() const override;
  [[nodiscard]] std::uint64_t fingerprint() const override;
  [[nodiscard]] std::string describe() const override;
  void read(std::int64_t n, const Row& row) const override;

  /// The dataset that sample `n` comes from, and its number there.
  struct Place {
    std::size_t part = 0;
    std::int64_t sample = 0;
  };
  [[nodiscard]] Place place_of(std::int64_t n) const;

 private:
  [[nodiscard]] std::uint64_t share_of_left(std::size_t begin, std::size_t middle, std::size_t end) const;

  std::vector<Part> parts_;
  std::vector<double> sums_;  // of the weights before each part, and of all
};

}  // namespace oxrse::io

#include "io/data/blend.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/core/error.h"
#include "io/checksum.h"

namespace oxrse::io {
namespace {

constexpr int kShareBits = 32;  // a share is a number of 2^-32ths, so that counts are exact integers

/// floor(n * share / 2^32) without overflow.
std::int64_t part_of(std::int64_t n, std::uint64_t share) {
  const auto value = static_cast<std::uint64_t>(n);
  const std::uint64_t low = value & 0xffffffffU;
  return static_cast<std::int64_t>((value >> kShareBits) * share + (low * share >> kShareBits));
}

}  // namespace

BlendDataset::BlendDataset(std::vector<Part> parts) : parts_(std::move(parts)), sums_{0} {
  require(!parts_.empty(), "a blend of no data");
  for (const Part& part : parts_) {
    require(part.weight > 0 && std::isfinite(part.weight), "a weight of {} in a blend; weights are above 0", part.weight);
    sums_.push_back(sums_.back() + part.weight);
    require(sums_.back() > sums_[sums_.size() - 2] && std::isfinite(sums_.back()),
            "a weight of {} in a blend is too far from the others, which are {} together", part.weight, sums_[sums_.size() - 2]);
  }
}

std::uint64_t BlendDataset::share_of_left(std::size_t begin, std::size_t middle, std::size_t end) const {
  const double share = (sums_[middle] - sums_[begin]) / (sums_[end] - sums_[begin]);
  return static_cast<std::uint64_t>(std::llround(std::ldexp(share, kShareBits)));
}

/// Halves the list again and again. Of the first n samples floor(n * share) go to the left half: sample n does when that number grows
/// with it, and then the number is its place there.
BlendDataset::Place BlendDataset::place_of(std::int64_t n) const {
  std::size_t begin = 0;
  std::size_t end = parts_.size();
  while (end - begin > 1) {
    const std::size_t middle = (begin + end) / 2;
    const std::uint64_t share = share_of_left(begin, middle, end);
    const std::int64_t before = part_of(n, share);
    if (part_of(n + 1, share) > before) {
      n = before;
      end = middle;
    } else {
      n -= before;
      begin = middle;
    }
  }
  return {.part = begin, .sample = n};
}

std::int64_t BlendDataset::samples_per_epoch() const {
  return std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Part& part) { return sum + part.data->samples_per_epoch(); });
}

std::int64_t BlendDataset::tokens() const {
  return std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Part& part) { return sum + part.data->tokens(); });
}

std::uint64_t BlendDataset::fingerprint() const {
  std::vector<std::uint64_t> all;
  for (const Part& part : parts_) {
    all.push_back(part.data->fingerprint());
    all.push_back(std::bit_cast<std::uint64_t>(part.weight / sums_.back()));
  }
  return xxh3(std::as_bytes(std::span(all)));
}

std::string BlendDataset::describe() const {
  std::string text = fmt::format("a blend of {}", parts_.size());
  for (const Part& part : parts_) text += fmt::format("\n  {:.4g}% {}", 100 * part.weight / sums_.back(), part.data->describe());
  return text;
}

void BlendDataset::read(std::int64_t n, const Row& row) const {
  const Place place = place_of(n);
  parts_[place.part].data->read(place.sample, row);
}

}  // namespace oxrse::io

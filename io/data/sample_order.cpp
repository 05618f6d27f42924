#include "io/data/sample_order.h"

#include "engine/core/error.h"
#include "engine/core/philox.h"

namespace oxrse::io {
namespace {

constexpr std::uint32_t kRounds = 8;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); }

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t fingerprint, std::uint64_t epoch, std::int64_t size)
    : key_{}, size_(static_cast<std::uint64_t>(size)), half_bits_(1) {
  require(size > 0, "a permutation of {} samples", size);
  const auto words = philox({low(seed), high(seed), low(fingerprint), high(fingerprint)}, {low(epoch), high(epoch)});
  key_ = {words[0], words[1]};
  while (half_bits_ < 31 && (std::uint64_t{1} << (2 * half_bits_)) < size_) ++half_bits_;
}

std::uint64_t Permutation::encipher(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = left ^ (philox({low(right), round, 0, 0}, key_)[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

std::int64_t Permutation::operator()(std::int64_t place) const {
  require(0 <= place && static_cast<std::uint64_t>(place) < size_, "place {} of a permutation of {}", place, size_);
  auto value = static_cast<std::uint64_t>(place);
  do value = encipher(value);
  while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace oxrse::io

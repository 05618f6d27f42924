#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace oxrse {

/// Philox4x32-10: four random words from a 128-bit counter and a 64-bit key, with no state to carry around, so the number of
/// any element can be drawn by any thread or rank. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// FNV-1a: the 64-bit name of a random stream, e.g. of a parameter.
constexpr std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
  return hash;
}

/// Random numbers of one stream, addressed by a 64-bit index. Streams of different seeds or names are independent.
class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t seed, std::uint64_t stream)
      : key_{static_cast<std::uint32_t>(seed) ^ static_cast<std::uint32_t>(stream >> 32U), static_cast<std::uint32_t>(seed >> 32U)},
        stream_(static_cast<std::uint32_t>(stream)),
        stream_high_(static_cast<std::uint32_t>(stream >> 32U)) {}

  /// Four random words for index `i`.
  [[nodiscard]] constexpr std::array<std::uint32_t, 4> words(std::uint64_t i) const {
    return philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32U), stream_, stream_high_}, key_);
  }
  /// Uniform in [0, 1) with 53 random bits.
  [[nodiscard]] constexpr double uniform(std::uint64_t i) const {
    const auto w = words(i);
    return static_cast<double>((std::uint64_t{w[0]} << 21U) ^ (w[1] >> 11U)) * 0x1p-53;
  }
  /// Standard normal by Box and Muller's transform.
  [[nodiscard]] double normal(std::uint64_t i) const {
    const auto w = words(i);
    const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(w[0]) + 0.5) * 0x1p-32));
    return radius * std::cos(2.0 * std::numbers::pi * (static_cast<double>(w[1]) + 0.5) * 0x1p-32);
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t stream_, stream_high_;
};

}  // namespace oxrse

#pragma once

#include <array>
#include <cstdint>

namespace oxrse::io {

/// A permutation of 0 .. size-1 that is computed place by place, so nothing is stored: a Feistel network over the next power of four,
/// walked until it ends inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002), with Philox as round function.
class Permutation {
 public:
  /// The permutation is a function of all four numbers.
  Permutation(std::uint64_t seed, std::uint64_t fingerprint, std::uint64_t epoch, std::int64_t size);

  /// What stands at `place`.
  [[nodiscard]] std::int64_t operator()(std::int64_t place) const;

 private:
  [[nodiscard]] std::uint64_t encipher(std::uint64_t value) const;

  std::array<std::uint32_t, 2> key_;
  std::uint64_t size_;
  int half_bits_;
};

}  // namespace oxrse::io

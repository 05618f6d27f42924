#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace oxrse::io {

/// The tokens of pieces met before. Forgets everything when it is full, so memory stays bounded (about 8 MiB).
class WordCache {
 public:
  WordCache();

  /// Appends the tokens of `piece` and returns true when it is known.
  bool find(std::vector<std::int32_t>& tokens, std::string_view piece);
  /// Remembers the tokens of the piece that `find` was last called with and did not know.
  void add(std::string_view piece, std::span<const std::int32_t> tokens);
  void clear();

  static constexpr std::size_t kLongestPiece = 64;  // bytes; longer ones rarely come twice

 private:
  struct Slot {
    std::uint64_t hash = 0;  // 0: free
    std::uint32_t text = 0;  // where its bytes begin in texts_
    std::uint16_t size = 0;
    std::uint16_t count = 0;  // of tokens
    std::uint32_t first = 0;  // the only token, or where they begin in tokens_
  };
  [[nodiscard]] std::size_t place_of(std::uint64_t hash, std::string_view piece) const;

  static constexpr std::size_t kSlots = std::size_t{1} << 17U;
  std::vector<Slot> slots_;
  std::vector<char> texts_;
  std::vector<std::int32_t> tokens_;
  std::size_t used_ = 0;
  std::size_t missed_ = 0;         // the free place that the last unsuccessful search ended at
  std::uint64_t missed_hash_ = 0;  // and what was searched
};

}  // namespace oxrse::io

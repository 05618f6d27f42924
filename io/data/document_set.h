#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/checksum.h"

namespace oxrse::io {

/// The documents met so far, known by their 128-bit XXH3: among n documents the chance that two different ones have the same is n^2 / 2^129
/// (a billion: 10^-21). Takes 22 to 43 bytes a document.
class DocumentSet {
 public:
  explicit DocumentSet(std::int64_t most_bytes) : most_bytes_(most_bytes) {}

  /// Adds a document; false when it is there already. An Error, with nothing changed, when that takes more memory than allowed.
  bool insert(Hash128 document);
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  /// Open addressing with linear probing. There are many small tables, so that growing one of them hardly shows in the memory.
  struct Table {
    std::vector<Hash128> slots;  // a power of two of them; zero: free
    std::size_t used = 0;
  };
  static Hash128& place_in(std::vector<Hash128>& slots, Hash128 document);
  void grow(Table& table);

  std::array<Table, 256> tables_;
  std::int64_t most_bytes_, size_ = 0, bytes_ = 0;
};

}  // namespace oxrse::io

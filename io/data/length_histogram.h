#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace oxrse::io {

/// How many documents there are of which length, in powers of two.
class LengthHistogram {
 public:
  void add(std::int64_t length);
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// One line with the number of documents, the least, the greatest and the mean length in `unit`, then a bar a power of two:
  ///
  ///     documents: 3, of 8 to 31 tokens, 15.7 on average
  ///                8-15 ######################################## 2
  ///               16-31 #################### 1
  [[nodiscard]] std::string text(std::string_view unit) const;

 private:
  std::array<std::int64_t, 64> bins_{};  // bin i: lengths of i bits, 2^(i-1) to 2^i - 1
  std::int64_t count_ = 0, sum_ = 0, least_ = 0, greatest_ = 0;
};

}  // namespace oxrse::io

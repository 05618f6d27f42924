#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace oxrse::io {

/// Finds tokens that are written out in a text, such as "<|endoftext|>": the leftmost first, of those at one place the longest.
class TokenFinder {
 public:
  struct Found {
    std::size_t begin = 0, size = 0;  // in the text; size 0: none was found
    std::int32_t token = 0;
  };

  void add(std::string name, std::int32_t token);
  [[nodiscard]] bool empty() const { return names_.empty(); }
  /// The first one that starts at or after `begin`.
  [[nodiscard]] Found find(std::string_view text, std::size_t begin) const;

  /// Calls `ordinary(text)` for the stretches between the tokens and `found(token)` for the tokens, in order.
  template <class Ordinary, class OnFound>
  void cut(std::string_view text, Ordinary&& ordinary, OnFound&& on_found) const {
    std::size_t begin = 0;
    for (Found found = find(text, 0); found.size != 0; found = find(text, begin)) {
      if (found.begin > begin) ordinary(text.substr(begin, found.begin - begin));
      on_found(found.token);
      begin = found.begin + found.size;
    }
    if (begin < text.size()) ordinary(text.substr(begin));
  }

 private:
  std::vector<std::pair<std::string, std::int32_t>> names_;  // the longest first
  std::array<bool, 256> starts_{};                           // the bytes that names start with
};

}  // namespace oxrse::io

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/tokenizer/bpe.h"

namespace oxrse::io {

/// How often each piece of a text occurs.
class WordCounts {
 public:
  void add(std::string_view word, std::int64_t times = 1);
  void add(const WordCounts& other);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  using Map = std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>>;
  [[nodiscard]] const Map& words() const { return words_; }

 private:
  Map words_;
};

/// Trains a byte-level BPE: starting from the 256 bytes, the pair of neighbours inside words that occurs most often becomes a token, again
/// and again, until there are `vocab` tokens, the last of them "<|endoftext|>", or no pair occurs twice. Of equally frequent pairs the one
/// with the smaller ids is taken, so the result depends on the counts alone. `pattern` is the one the words were split with. `progress` is
/// told the tokens there are, now and then. An Error when `vocab` is below 257.
BpeParts train_bpe(const WordCounts& counts, std::int64_t vocab, std::string_view pattern,
                   const std::function<void(std::int64_t)>& progress = {});

}  // namespace oxrse::io

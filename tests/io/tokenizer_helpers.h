#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/tokenizer/bpe.h"
#include "io/tokenizer/bpe_trainer.h"
#include "io/tokenizer/splitter.h"

namespace oxrse::io {

/// A text whose 307 tokens tests rely on.
inline constexpr std::string_view kSmallText =
    "In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness was upon the face of "
    "the "
    "deep. And the Spirit of God moved upon the face of the waters. And God said, Let there be light: and there was light. \xc3\xbc"
    "ber f\xc3\xbcr \xc3\xbc \xf0\x9f\x98\x80\xf0\x9f\x98\x80 can't won't isn't 2024 2025";

inline BpeParts train_on(std::string_view text, std::int64_t vocab, std::string_view pattern = kLlama3Pattern) {
  WordCounts counts;
  Splitter(std::string(pattern)).split(text, [&](std::string_view word) { counts.add(word); });
  return train_bpe(counts, vocab, pattern);
}

}  // namespace oxrse::io

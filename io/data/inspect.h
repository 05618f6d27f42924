#pragma once

#include <cstdint>
#include <string>

#include "io/data/source.h"

namespace oxrse::io {

struct InspectRequest {
  std::int64_t samples = 3;  // documents of which the beginning is shown
  std::string tokenizer;  // that decodes tokens, as load_tokenizer takes it; empty: the tokenizer.json beside the shards, if there is one
};

/// What a person wants to know about data: files, tokens, the largest token, the documents and their lengths, the beginnings of some of
/// them evenly spread over the data. Several lines. Reads everything once.
std::string inspect_source(const Source& source, const InspectRequest& request = {});

}  // namespace oxrse::io

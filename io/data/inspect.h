#pragma once

#include <string>

#include "io/data/source.h"

namespace oxrse::io {

/// What a person wants to know about data: files, tokens, documents, the largest token, the beginning as text where a tokenizer lies beside
/// it. Several lines.
std::string inspect_source(const Source& source);

}  // namespace oxrse::io

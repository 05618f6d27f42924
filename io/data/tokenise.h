#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "io/data/progress.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {

struct TokeniseSummary {
  std::int64_t tokens = 0, documents = 0, empty_documents = 0, bytes = 0;
};

/// Tokenises the text of `files` into shards in the existing, empty `directory`, on all cores, a few MiB of text at a time.
TokeniseSummary tokenise(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                         const std::filesystem::path& directory, const OnProgress& progress);

}  // namespace oxrse::io

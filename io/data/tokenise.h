#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "io/data/journal.h"
#include "io/data/progress.h"
#include "io/data/text_options.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {

struct TokeniseOptions {
  TextOptions text;
  std::int64_t tokens_per_shard = std::int64_t{1} << 26U;  // 128 or 256 MiB; held in memory, 4 bytes a token, while a shard is filled
};

struct TokeniseSummary {
  std::int64_t tokens = 0, documents = 0, bytes = 0;
  TextReport left_out;
};

/// Tokenises the text of `files` into shards in the existing `directory`, on all cores, a few MiB of text at a time. With a journal it goes
/// on where an earlier process was and ends with the same bytes as if there had been only one; without, the directory is empty.
TokeniseSummary tokenise(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                         const std::filesystem::path& directory, const TokeniseOptions& options, Journal* journal,
                         const OnProgress& progress);

}  // namespace oxrse::io

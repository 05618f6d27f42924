#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "io/data/source.h"
#include "io/data/token_stream.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {

/// How far a long job is, in bytes of text; called now and then.
struct Progress {
  std::string what;  // "tokenising kjv.txt"
  std::int64_t done = 0, total = 0;
};
using OnProgress = std::function<void(const Progress&)>;

struct TokeniseSummary {
  std::int64_t tokens = 0, documents = 0, empty_documents = 0, bytes = 0;
};

/// Tokenises the text of `files` into shards in the existing, empty `directory`, on all cores, a few MiB of text at a time.
TokeniseSummary tokenise(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                         const std::filesystem::path& directory, const OnProgress& progress);

/// Opens a directory or files of token shards as one stream; see DatasetWriter and open_token_shard.
TokenStream open_tokens(const Source& source);

/// Opens the tokens of any source. Text is tokenised once, into `cache`/tokens-KEY where KEY is a hash of the text, of the names of its
/// files' formats and of the tokenizer. Processes that do so at once each work, and one of them wins.
TokenStream open_source(const Source& source, const Tokenizer* tokenizer, const std::filesystem::path& cache, const OnProgress& progress);

/// Where tokenised text is kept when the config does not say: $XDG_CACHE_HOME/oxrse, ~/.cache/oxrse or, without a home, below the
/// system's directory for temporary files.
std::filesystem::path default_cache();

}  // namespace oxrse::io

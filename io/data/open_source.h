#pragma once

#include <filesystem>
#include <memory>

#include "io/data/progress.h"
#include "io/data/source.h"
#include "io/data/text_options.h"
#include "io/data/token_stream.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {

/// The tokens of a source, and what was left out when they were made from text.
struct OpenedSource {
  TokenStream tokens;
  TextReport left_out;
  std::string rebuilt;  // why what the cache held was made again; empty when it was not
};

/// Opens shards as one stream; see DatasetWriter and open_token_shard. Shards that say that another tokenizer than `tokenizer` made them
/// are refused.
OpenedSource open_tokens(const Source& source, const Tokenizer* tokenizer = nullptr);

/// Opens the tokens of any source. Text is tokenised once, into `cache`/tokens-KEY where KEY is a hash of the text, the options and the
/// tokenizer. Processes that do so at once each work, and one of them wins. What is damaged in the cache is made again.
OpenedSource open_source(const Source& source, const Tokenizer* tokenizer, const std::filesystem::path& cache, const TextOptions& options,
                         const OnProgress& progress);

/// A BPE of `vocab` tokens trained on the text, once: it is kept as `cache`/tokenizer-KEY.json.
std::unique_ptr<Tokenizer> open_trained_tokenizer(const Source& source, std::int64_t vocab, const std::filesystem::path& cache,
                                                  const TextOptions& options, const OnProgress& progress);

/// Where tokenised text is kept when the config does not say: $XDG_CACHE_HOME/oxrse, ~/.cache/oxrse or, without a home, below the
/// system's directory for temporary files.
std::filesystem::path default_cache();

}  // namespace oxrse::io

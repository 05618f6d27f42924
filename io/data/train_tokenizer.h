#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "io/data/progress.h"
#include "io/data/text_options.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {

/// Trains a byte-level BPE of `vocab` tokens, or as many as the text gives, on text files and JSONL; see train_bpe. The text is split with
/// the pattern of Llama 3. The result does not depend on the number of cores.
std::unique_ptr<Tokenizer> train_tokenizer(const std::vector<std::filesystem::path>& files, std::int64_t vocab, const TextOptions& options,
                                           const OnProgress& progress);

}  // namespace oxrse::io

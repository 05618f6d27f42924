#pragma once

#include <filesystem>
#include <vector>

#include "io/data/tokenise.h"

namespace oxrse::io {

/// Tokenises text files into the new directory `directory`. Until all is written and on the disk the work is in `directory`.unfinished;
/// when the process is killed, the same call goes on from the last complete shard and ends with the same bytes. An Error when `directory`
/// is there and not empty, when another process is at work on it, or when what is unfinished was begun with other files (names, sizes,
/// times), another tokenizer or other options. (What skips invalid documents may go on where not skipping them failed, and with more
/// memory.)
TokeniseSummary prepare(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer, const std::filesystem::path& directory,
                        const TokeniseOptions& options, const OnProgress& progress);

}  // namespace oxrse::io

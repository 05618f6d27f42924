#include "io/data/prepare.h"

#include <string>

#include "engine/core/error.h"
#include "engine/core/json.h"
#include "io/checksum.h"
#include "io/file_lock.h"
#include "io/file_stream.h"
#include "io/files.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;

/// Stands for everything that the result depends on, except the contents of files whose size and time of change are the same.
std::uint64_t key_of(const std::vector<fs::path>& files, const Tokenizer& tokenizer, const TokeniseOptions& options) {
  Json parts = {tokenizer.fingerprint(), options.tokens_per_shard, static_cast<int>(options.text.line_ends), options.text.nfc,
                options.text.deduplicate};
  for (const fs::path& file : files) {
    parts.push_back({file.string(), fs::file_size(file), fs::last_write_time(file).time_since_epoch().count()});
  }
  return xxh3(parts.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void require_new(const fs::path& out) {
  require(!fs::exists(out) || (fs::is_directory(out) && fs::is_empty(out)),
          "{} exists and is not an empty directory; give another --out or remove it", out.string());
}

/// "shards/" is "shards".
fs::path without_slash(const fs::path& directory) { return directory.has_filename() ? directory : directory.parent_path(); }

/// The directory for unfinished work on `out`, made when there is none.
fs::path make_unfinished(const fs::path& out) {
  fs::path name = out;
  name += ".unfinished";
  std::error_code error;
  fs::create_directories(name, error);
  require(!error, "cannot make the directory {}: {}", name.string(), error.message());
  return name;
}

}  // namespace

TokeniseSummary prepare(const std::vector<fs::path>& files, const Tokenizer& tokenizer, const fs::path& directory,
                        const TokeniseOptions& options, const OnProgress& progress) {
  require(!directory.empty(), "the name of the directory to write is empty");
  const fs::path out = without_slash(directory);
  require_new(out);
  const fs::path work = make_unfinished(out);
  const FileLock lock(work / ".lock");
  require(lock.held(), "another process is preparing {}; wait for it, or give another --out", out.string());
  require_new(out);  // that other process may have ended in the meantime
  Journal journal(work, key_of(files, tokenizer, options));
  try {
    TokeniseSummary summary = tokenise(files, tokenizer, work, options, &journal, progress);
    sync_to_disk(work);
    rename_durably(work, out);
    Journal::erase(out);  // only now, so that a kill at any moment loses nothing, and no other process can hold another lock
    fs::remove(out / ".lock");
    return summary;
  } catch (const Error&) {
    if (!journal.has_saved()) fs::remove_all(work);
    throw;
  }
}

}  // namespace oxrse::io

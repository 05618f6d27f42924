#include "io/checkpoint/prune.h"

#include <algorithm>

#include "io/checkpoint/checkpoint.h"

namespace oxrse::io {

std::vector<Pruned> prune(const std::filesystem::path& path, std::int64_t keep, bool dry_run) {
  require(keep >= 1, "{} checkpoints to keep: at least 1 is kept", keep);
  const std::filesystem::path checkpoints = checkpoints_in(path);
  std::vector<Pruned> result;
  std::int64_t kept = 0;
  for (const FoundCheckpoint& found : find_checkpoints(checkpoints)) {
    Pruned entry{found.directory.path, kept < keep, {}};
    if (entry.kept) entry.damage = damage_of(entry.directory);  // what goes anyway need not be read
    entry.kept = entry.kept && entry.damage.empty();
    kept += entry.kept ? 1 : 0;
    result.push_back(entry);
  }
  require(!result.empty(), "{} holds no checkpoint (no step_... directory)", path.string());
  if (kept == 0) fail("{} holds no whole checkpoint, so nothing is removed: {}", path.string(), result.front().damage.front());
  for (const StepDirectory& aside : directories_set_aside(checkpoints)) result.push_back({aside.path, false, {}});
  for (const Pruned& entry : result) {
    if (!entry.kept && !dry_run) remove_checkpoint(entry.directory);
  }
  return result;
}

}  // namespace oxrse::io

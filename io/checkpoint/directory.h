#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint/manifest.h"

namespace oxrse::io {

/// Is given one sentence about something that is wrong but was dealt with.
using Warn = std::function<void(const std::string&)>;

/// A directory named like a complete checkpoint.
struct StepDirectory {
  std::int64_t step = 0;
  std::filesystem::path path;
};

/// "step_0000000200"
std::string step_name(std::int64_t step);
/// The step directories in `checkpoints`, smallest step first. Unfinished ones (.tmp) and those set aside are not among them.
std::vector<StepDirectory> step_directories(const std::filesystem::path& checkpoints);
/// Those that made way for another checkpoint of their step (step_0000000200.older, .older2, ...), smallest step first. They are only for
/// people: no command takes one unless it is named.
std::vector<StepDirectory> directories_set_aside(const std::filesystem::path& checkpoints);
/// A free name for the next one.
std::filesystem::path name_to_set_aside(const std::filesystem::path& step_directory);

/// The manifest of a step directory. An Error also where the directory has the name of another step, because it was renamed: whoever looks
/// for that step must not get this one. Names that say no step are free.
Manifest read_named_manifest(const std::filesystem::path& step_directory);

/// A step directory and its manifest, or what is wrong with that.
struct FoundCheckpoint {
  StepDirectory directory;
  std::optional<Manifest> manifest;
  std::string damage;
};
/// All of a directory, what was saved last first; those with unreadable manifests come last.
std::vector<FoundCheckpoint> find_checkpoints(const std::filesystem::path& checkpoints);

/// Whether all its files are there in their sizes: what can be told without reading them.
bool has_its_files(const FoundCheckpoint& found);

/// The step directory LATEST names; nothing when it is absent, empty, garbage or names what is not there.
std::optional<std::filesystem::path> read_latest(const std::filesystem::path& checkpoints);
void write_latest(const std::filesystem::path& checkpoints, std::int64_t step);

/// Keeps the `keep` checkpoints up to `step` that were saved last (0 keeps all) and removes the others up to `step`. Those of later
/// steps, which an earlier run left, stay. The checkpoint of `step` itself, which has just been saved, always stays. Those with missing
/// or shortened files are not counted, so that they do not take the place of good ones. Complete checkpoints and those with weights only
/// are counted separately. Those of a step up to `step` that were set aside never count; one goes when `keep` complete ones up to
/// `step` were saved after it.
void apply_retention(const std::filesystem::path& checkpoints, std::int64_t step, std::int64_t keep);
/// Removes a step directory such that a crash leaves nothing that looks complete.
void remove_checkpoint(const std::filesystem::path& step_directory);

}  // namespace oxrse::io

#include "io/checkpoint/save.h"

#include <algorithm>
#include <set>

#include "io/checkpoint/shard.h"
#include "io/checksum.h"
#include "io/file_stream.h"
#include "io/files.h"

namespace oxrse::io {
namespace {

constexpr std::string_view kUnfinished = ".tmp";

bool names_a_link(std::string_view name) { return !name.empty() && name != "." && name.find('/') == std::string_view::npos; }

void check(const CheckpointState& state, std::span<const CheckpointEntry> entries, std::int64_t keep) {
  require(state.step >= 0 && keep >= 0, "a checkpoint of step {} with {} to keep", state.step, keep);
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const CheckpointEntry& entry : entries) {
    require(names_a_link(entry.name) && names_a_link(entry.part), "a tensor cannot be saved as '{}', part '{}'", entry.name, entry.part);
    require(seen.emplace(entry.name, entry.part).second, "two tensors to save are called {} (part {})", entry.name, entry.part);
    require(entry.tensor.contiguous() && is_floating(entry.tensor.dtype()), "{} (part {}): {} cannot be saved, only contiguous floats",
            entry.name, entry.part, entry.tensor.describe());
  }
}

void make_directory(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  require(!error, "cannot make the directory {}: {}", path.string(), error.message());
}

/// What an interrupted save or removal left.
void remove_unfinished(const std::filesystem::path& checkpoints) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step_") && name.ends_with(kUnfinished)) std::filesystem::remove_all(entry.path(), error);
  }
}

std::int64_t next_sequence(const std::vector<FoundCheckpoint>& found) {
  return found.empty() || !found.front().manifest ? 0 : found.front().manifest->sequence + 1;
}

Manifest write_files(const std::filesystem::path& directory, const CheckpointState& state, std::span<const CheckpointEntry> entries,
                     std::int64_t sequence) {
  Manifest manifest;
  manifest.step = state.step;
  manifest.sequence = sequence;
  manifest.config = state.config;
  if (!state.tokenizer_json.empty()) manifest.tokenizer_xxh3 = hex(xxh3(state.tokenizer_json));
  const std::string shard = "shard_r00000.h5";
  manifest.tensors = write_shard(directory / shard, 0, state, entries);
  manifest.files = {
      {shard, static_cast<std::int64_t>(std::filesystem::file_size(directory / shard)), hex(xxh3_of_file(directory / shard))}};
  write_file_atomically(directory / kManifestName, to_text(manifest));
  sync_to_disk(directory);
  return manifest;
}

/// A name for what has to make way.
std::filesystem::path free_name(const std::filesystem::path& taken) {
  std::filesystem::path name = taken.string() + ".older";
  for (int i = 2; std::filesystem::exists(name); ++i) name = taken.string() + fmt::format(".older{}", i);
  return name;
}

/// Gives the finished directory its name. Equal states make equal files, so an equal checkpoint under that name can go; any other
/// is kept under another name.
void put_in_place(const std::filesystem::path& finished, const std::filesystem::path& place, const Manifest& manifest,
                  const std::vector<FoundCheckpoint>& found, const Warn& warn) {
  if (!std::filesystem::exists(place)) return rename_durably(finished, place);
  const std::filesystem::path aside = free_name(place);
  rename_durably(place, aside);
  try {
    rename_durably(finished, place);
  } catch (const Error&) {
    std::filesystem::rename(aside, place);
    throw;
  }
  const bool equal = std::any_of(found.begin(), found.end(), [&](const FoundCheckpoint& f) {
    return f.directory.step == manifest.step && f.manifest && f.manifest->files == manifest.files;
  });
  if (equal) return remove_checkpoint(aside);
  warn(fmt::format("{} was there already with other contents, from an earlier run or damaged; it is kept as {}", place.string(),
                   aside.filename().string()));
}

}  // namespace

void save_checkpoint(const std::filesystem::path& checkpoints, const CheckpointState& state, std::span<const CheckpointEntry> entries,
                     std::int64_t keep, const Warn& warn) {
  check(state, entries, keep);
  make_directory(checkpoints);
  remove_unfinished(checkpoints);
  const std::vector<FoundCheckpoint> found = find_checkpoints(checkpoints);
  const std::filesystem::path place = checkpoints / step_name(state.step);
  const std::filesystem::path unfinished = place.string() + std::string(kUnfinished);
  make_directory(unfinished);
  try {
    const Manifest manifest = write_files(unfinished, state, entries, next_sequence(found));
    put_in_place(unfinished, place, manifest, found, warn);
  } catch (const Error& error) {
    std::error_code ignored;
    std::filesystem::remove_all(unfinished, ignored);  // frees the disk that may be full
    fail("checkpoint of step {} not saved: {}", state.step, error.what());
  }
  write_latest(checkpoints, state.step);
  apply_retention(checkpoints, state.step, keep);
}

}  // namespace oxrse::io

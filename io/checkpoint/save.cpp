#include "io/checkpoint/save.h"

#include <algorithm>
#include <map>
#include <set>

#include "io/checksum.h"
#include "io/files.h"

namespace oxrse::io {
namespace {

constexpr std::string_view kUnfinished = ".tmp";

bool names_a_link(std::string_view name) { return !name.empty() && name != "." && name.find('/') == std::string_view::npos; }

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

std::filesystem::path place_of(const std::filesystem::path& checkpoints, std::int64_t step) { return checkpoints / step_name(step); }

/// The files of all writers: first each one's own, then those they link to, each once.
class Files {
 public:
  explicit Files(std::span<const ShardSummary> shards) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      require(!shards[i].files.empty() && shards[i].files.front().name == shard_name(static_cast<std::int64_t>(i)), "writer {} gave {}", i,
              shards[i].files.empty() ? "no file" : shards[i].files.front().name);
      add(shards[i].files.front());
    }
    for (const ShardSummary& shard : shards) {
      for (std::size_t i = 1; i < shard.files.size(); ++i) add(shard.files[i]);
    }
  }
  [[nodiscard]] std::int64_t index_of(const StoredFile& file) const { return index_.at(file.name); }
  [[nodiscard]] const std::vector<StoredFile>& all() const { return files_; }

 private:
  void add(const StoredFile& file) {
    if (index_.emplace(file.name, static_cast<std::int64_t>(files_.size())).second) files_.push_back(file);
  }

  std::vector<StoredFile> files_;
  std::map<std::string, std::int64_t> index_;
};

/// Joins what the writers have of each tensor; tensors stay in the order of the writers.
std::vector<StoredTensor> join(std::span<const ShardSummary> shards, const Files& files) {
  std::vector<StoredTensor> tensors;
  std::map<std::pair<std::string, std::string>, std::size_t> index;
  for (const ShardSummary& shard : shards) {
    for (StoredTensor tensor : shard.tensors) {
      for (Piece& piece : tensor.pieces) piece.file = files.index_of(shard.files.at(static_cast<std::size_t>(piece.file)));
      const auto [known, is_new] = index.emplace(std::pair(tensor.name, tensor.part), tensors.size());
      if (is_new) {
        tensors.push_back(std::move(tensor));
        continue;
      }
      StoredTensor& whole = tensors[known->second];
      require(whole.dtype == tensor.dtype && whole.shape == tensor.shape, "{} is {}{} on one rank and {}{} on another", tensor.label(),
              name_of(whole.dtype), describe_shape(whole.shape), name_of(tensor.dtype), describe_shape(tensor.shape));
      whole.pieces.insert(whole.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
  }
  return tensors;
}

Manifest make_manifest(const CheckpointState& state, std::span<const ShardSummary> shards, std::int64_t sequence) {
  Manifest manifest;
  manifest.step = state.step;
  manifest.sequence = sequence;
  manifest.world = static_cast<std::int64_t>(shards.size());
  manifest.weights_only = state.weights_only;
  manifest.config = state.config;
  if (!state.tokenizer_json.empty()) manifest.tokenizer_xxh3 = hex(xxh3(state.tokenizer_json));
  const Files files(shards);
  manifest.files = files.all();
  manifest.tensors = join(shards, files);
  check_tensors(manifest);
  return manifest;
}

/// Calls `f`; when it fails, removes what was written of the checkpoint, which also frees a disk that may be full.
template <class F>
void or_abandon(const std::filesystem::path& checkpoints, std::int64_t step, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    abandon_save(checkpoints, step);
    fail("checkpoint of step {} not saved: {}", step, error.what());
  }
}

/// Whether `before` is the weights that a run saved just before it saved everything at the same step.
bool are_weights_of(const Manifest& before, const Manifest& complete) {
  return before.weights_only && !complete.weights_only && before.sequence + 1 == complete.sequence && before.config == complete.config;
}

/// Gives the finished directory its name. Equal states make equal files, so an equal checkpoint under that name can go, and so can the
/// weights of this one; any other is kept under another name.
void put_in_place(const std::filesystem::path& finished, const std::filesystem::path& place, const Manifest& manifest,
                  const std::vector<FoundCheckpoint>& found, const Warn& warn) {
  if (!std::filesystem::exists(place)) return rename_durably(finished, place);
  const std::filesystem::path aside = name_to_set_aside(place);
  rename_durably(place, aside);
  try {
    rename_durably(finished, place);
  } catch (const Error&) {
    std::filesystem::rename(aside, place);
    throw;
  }
  const bool contained = std::any_of(found.begin(), found.end(), [&](const FoundCheckpoint& f) {
    return f.directory.step == manifest.step && f.manifest &&
           (f.manifest->files == manifest.files || are_weights_of(*f.manifest, manifest));
  });
  if (contained) return remove_checkpoint(aside);
  warn(fmt::format("{} was there already with other contents, from an earlier run or damaged; it is kept as {}", place.string(),
                   aside.filename().string()));
}

}  // namespace

void check_entries(std::span<const CheckpointEntry> entries) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const CheckpointEntry& entry : entries) {
    require(names_a_link(entry.name) && names_a_link(entry.part), "a tensor cannot be saved as '{}', part '{}'", entry.name, entry.part);
    require(seen.emplace(entry.name, entry.part).second, "two tensors to save are called {} (part {})", entry.name, entry.part);
    require(entry.tensor.contiguous() && is_floating(entry.tensor.dtype()), "{} (part {}): {} cannot be saved, only contiguous floats",
            entry.name, entry.part, entry.tensor.describe());
    const Placement place = entry.place();
    checked_count(place.shape, entry.tensor.dtype());
    check_region(place.region, place.shape);
    require(place.region.count() == entry.tensor.count(), "{}: {} elements for {}", entry.label(), entry.tensor.count(),
            place.region.describe());
  }
}

std::optional<BaseCheckpoint> base_for_links(const std::filesystem::path& checkpoints) {
  for (const FoundCheckpoint& found : find_checkpoints(checkpoints)) {
    if (has_its_files(found)) return BaseCheckpoint{found.directory.path, *found.manifest};
  }
  return std::nullopt;
}

std::filesystem::path unfinished_save(const std::filesystem::path& checkpoints, std::int64_t step) {
  return place_of(checkpoints, step).string() + std::string(kUnfinished);
}

std::filesystem::path begin_save(const std::filesystem::path& checkpoints, std::int64_t step) {
  require(step >= 0, "a checkpoint of step {}", step);
  make_directory(checkpoints);
  remove_unfinished(checkpoints);
  const std::filesystem::path unfinished = unfinished_save(checkpoints, step);
  make_directory(unfinished);
  return unfinished;
}

void commit_save(const std::filesystem::path& checkpoints, const CheckpointState& state, std::span<const ShardSummary> shards,
                 std::int64_t keep, const Warn& warn) {
  or_abandon(checkpoints, state.step, [&] {
    const std::vector<FoundCheckpoint> found = find_checkpoints(checkpoints);
    const Manifest manifest = make_manifest(state, shards, next_sequence(found));
    const std::filesystem::path unfinished = unfinished_save(checkpoints, state.step);
    write_file_atomically(unfinished / kManifestName, to_text(manifest));
    sync_to_disk(unfinished);
    put_in_place(unfinished, place_of(checkpoints, state.step), manifest, found, warn);
  });
  write_latest(checkpoints, state.step);
  apply_retention(checkpoints, state.step, keep);
}

void abandon_save(const std::filesystem::path& checkpoints, std::int64_t step) {
  std::error_code ignored;
  std::filesystem::remove_all(unfinished_save(checkpoints, step), ignored);
}

void save_checkpoint(const std::filesystem::path& checkpoints, const CheckpointState& state, std::span<const CheckpointEntry> entries,
                     std::int64_t keep, const Warn& warn, const SaveOptions& options) {
  require(keep >= 0, "{} checkpoints to keep", keep);
  check_entries(entries);
  const std::filesystem::path unfinished = begin_save(checkpoints, state.step);
  ShardSummary shard;
  or_abandon(checkpoints, state.step, [&] {
    std::optional<BaseCheckpoint> base;
    if (options.incremental) base = base_for_links(checkpoints);
    shard = write_shard(unfinished, {}, state, entries, {.compress = options.compress, .base = base ? &*base : nullptr});
  });
  commit_save(checkpoints, state, {&shard, 1}, keep, warn);
}

}  // namespace oxrse::io

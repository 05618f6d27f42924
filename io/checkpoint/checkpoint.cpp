#include "io/checkpoint/checkpoint.h"

#include <algorithm>

#include "io/checkpoint/shard.h"
#include "io/checksum.h"

namespace oxrse::io {
namespace {

bool is_step_directory(const std::filesystem::path& path) { return std::filesystem::exists(path / kManifestName); }

/// Says of a shard that was put in the place of another what it is.
std::string foreigner(const std::filesystem::path& path, const Manifest& manifest, std::int64_t index) {
  const std::string found = describe_shard(path);
  const std::string expected = fmt::format("shard {} of {} of step {}", index, manifest.world, manifest.step);
  const bool linked = index >= manifest.world;
  return linked || found.empty() || found == expected ? "" : fmt::format(": it is {}, where {} is expected", found, expected);
}

/// Names the tensors whose bytes changed; when none did, it is the structure of the file, or what it compressed: damaged structure is not
/// given to HDF5.
std::vector<std::string> find_damage(const Manifest& manifest, std::int64_t index, const InputFile& file) {
  std::vector<std::string> damage;
  const std::string path = file.path().string(), foreign = foreigner(file.path(), manifest, index);
  if (!foreign.empty()) return {path + " does not belong to this checkpoint" + foreign};
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const Piece& piece : tensor.pieces) {
      if (piece.file != index || piece.compressed || intact(file.path(), tensor, piece)) continue;
      damage.push_back(fmt::format("{} is damaged: the checksum of tensor {} differs", path, tensor.label()));
    }
  }
  if (damage.empty()) damage.push_back(fmt::format("{} is damaged outside of its uncompressed tensors: its checksum differs", path));
  return damage;
}

/// How much of a file is read to find damage. Files of version 1 are always read whole.
enum class Verify : std::uint8_t { Structure, Everything };

bool intact(const InputFile& file, const Manifest& manifest, std::int64_t index, Verify how) {
  const StoredFile& stored = manifest.files[static_cast<std::size_t>(index)];
  if (how == Verify::Everything || stored.structure.empty()) return hex(xxh3_of_file(file.path())) == stored.xxh3;
  return hex(structure_checksum(file, index, manifest.tensors)) == stored.structure;
}

std::vector<std::string> damage_of_file(const std::filesystem::path& directory, const Manifest& manifest, std::int64_t index, Verify how) {
  const StoredFile& stored = manifest.files[static_cast<std::size_t>(index)];
  try {
    const InputFile file(directory / stored.name);
    if (file.size() != stored.bytes) {
      return {fmt::format("{} has {} bytes where {} were written{}", file.path().string(), file.size(), stored.bytes,
                          foreigner(file.path(), manifest, index))};
    }
    if (intact(file, manifest, index, how)) return {};
    return find_damage(manifest, index, file);
  } catch (const Error& error) {
    return {error.what()};
  }
}

std::vector<std::string> damage_of_files(const std::filesystem::path& directory, const Manifest& manifest, Verify how) {
  std::vector<std::string> damage;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const auto found = damage_of_file(directory, manifest, static_cast<std::int64_t>(i), how);
    damage.insert(damage.end(), found.begin(), found.end());
  }
  return damage;
}

bool serves(const FoundCheckpoint& found, Need need) { return need == Need::Weights || !found.manifest || !found.manifest->weights_only; }

/// LATEST is for people and other programs; it follows what is really there. Where it cannot be written, it may stay wrong.
void repair_latest(const std::filesystem::path& checkpoints, const StepDirectory& newest, const Warn& warn) {
  if (read_latest(checkpoints)) return;
  warn(fmt::format("{} names no checkpoint; the newest whole one is {}", (checkpoints / "LATEST").string(),
                   newest.path.filename().string()));
  try {
    write_latest(checkpoints, newest.step);
  } catch (const Error& error) {
    warn(error.what());
  }
}

void mention_later_steps(const std::vector<FoundCheckpoint>& found, const FoundCheckpoint& chosen, const Warn& warn) {
  for (const FoundCheckpoint& other : found) {
    if (!other.manifest || other.directory.step <= chosen.directory.step || other.manifest->sequence > chosen.manifest->sequence) continue;
    warn(fmt::format("{} is of a later step but was saved before {}, by an earlier run; it is not used", other.directory.path.string(),
                     chosen.directory.path.filename().string()));
  }
}

}  // namespace

std::filesystem::path checkpoints_in(const std::filesystem::path& path) {
  require(std::filesystem::is_directory(path), "{} {}; a checkpoint is a step_... directory, a directory of those or a run directory",
          path.string(), std::filesystem::exists(path) ? "is no directory" : "does not exist");
  const std::filesystem::path inside = path / "checkpoints";
  return std::filesystem::is_directory(inside) ? inside : path;
}

std::vector<std::string> damage_of(const std::filesystem::path& step_directory) {
  try {
    return damage_of_files(step_directory, read_named_manifest(step_directory), Verify::Everything);
  } catch (const Error& error) {
    return {error.what()};
  }
}

std::vector<bool> whole_files(const std::filesystem::path& step_directory, const Manifest& manifest, const Warn& warn) {
  std::vector<bool> whole;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    whole.push_back(false);
    if (!std::filesystem::exists(step_directory / manifest.files[i].name)) continue;
    const auto damage = damage_of_file(step_directory, manifest, static_cast<std::int64_t>(i), Verify::Everything);
    for (const std::string& sentence : damage) warn(sentence + "; this file is not used");
    whole.back() = damage.empty();
  }
  return whole;
}

bool holds_checkpoint(const std::filesystem::path& path, Need need) {
  if (!std::filesystem::is_directory(path)) return false;
  if (is_step_directory(path)) return true;
  const auto found = find_checkpoints(checkpoints_in(path));
  return std::any_of(found.begin(), found.end(), [&](const FoundCheckpoint& f) { return serves(f, need); });
}

std::vector<std::filesystem::path> step_directories_in(const std::filesystem::path& path) {
  if (is_step_directory(path)) return {path};
  std::vector<std::filesystem::path> paths;
  for (const StepDirectory& directory : step_directories(checkpoints_in(path))) paths.push_back(directory.path);
  require(!paths.empty(), "{} holds no checkpoint (no step_... directory)", path.string());
  return paths;
}

Checkpoint::Checkpoint(std::filesystem::path directory, Manifest manifest)
    : directory_(std::move(directory)), manifest_(std::move(manifest)) {}

Checkpoint Checkpoint::open(const std::filesystem::path& path, const Warn& warn, Need need) {
  return first_whole(path, warn, need, [](Checkpoint& checkpoint) {
    auto damage = damage_of_files(checkpoint.directory_, checkpoint.manifest_, Verify::Everything);
    if (damage.empty()) checkpoint.load_state();
    return damage;
  });
}

void Checkpoint::load(const std::filesystem::path& path, const Warn& warn, Need need, const std::function<void(const Checkpoint&)>& load) {
  first_whole(path, warn, need, [&](Checkpoint& checkpoint) {
    auto damage = damage_of_files(checkpoint.directory_, checkpoint.manifest_, Verify::Structure);
    if (!damage.empty()) return damage;
    checkpoint.load_state();
    try {
      load(checkpoint);
    } catch (const Damage& found) {
      damage.emplace_back(found.what());
    }
    return damage;
  });
}

/// The checkpoint that was saved last of those in which `try_it` finds no damage.
Checkpoint Checkpoint::first_whole(const std::filesystem::path& path, const Warn& warn, Need need,
                                   const std::function<std::vector<std::string>(Checkpoint&)>& try_it) {
  if (is_step_directory(path)) {
    Checkpoint checkpoint(path, read_named_manifest(path));
    require(need == Need::Weights || !checkpoint.manifest_.weights_only,
            "{} holds the weights only: go on from a complete checkpoint, or give this one as run.init", path.string());
    const auto damage = try_it(checkpoint);
    require(damage.empty(), "{}", damage.empty() ? "" : damage.front());
    return checkpoint;
  }
  const std::filesystem::path checkpoints = checkpoints_in(path);
  auto found = find_checkpoints(checkpoints);
  std::erase_if(found, [&](const FoundCheckpoint& f) { return !serves(f, need); });
  require(!found.empty(), "{} holds no {}checkpoint (no step_... directory)", checkpoints.string(),
          need == Need::Everything ? "complete " : "");
  std::string all_damage;
  const auto dismiss = [&](const std::string& damage) {
    warn(damage + "; this checkpoint is not used");
    all_damage += "\n  " + damage;
  };
  for (const FoundCheckpoint& candidate : found) {
    if (!candidate.manifest) dismiss(candidate.damage);
  }
  for (const FoundCheckpoint& candidate : found) {
    if (!candidate.manifest) continue;
    Checkpoint checkpoint(candidate.directory.path, *candidate.manifest);
    const auto damage = try_it(checkpoint);
    for (const std::string& sentence : damage) dismiss(sentence);
    if (!damage.empty()) continue;
    repair_latest(checkpoints, candidate.directory, warn);
    mention_later_steps(found, candidate, warn);
    return checkpoint;
  }
  fail("{} holds no whole checkpoint:{}", checkpoints.string(), all_damage);
}

Checkpoint Checkpoint::open_unverified(const std::filesystem::path& path) {
  if (is_step_directory(path)) return {path, read_named_manifest(path)};
  const auto found = find_checkpoints(checkpoints_in(path));
  require(!found.empty(), "{} holds no checkpoint (no step_... directory)", path.string());
  require(found.front().manifest.has_value(), "{}", found.front().damage);
  return {found.front().directory.path, *found.front().manifest};
}

Checkpoint Checkpoint::open_part(const std::filesystem::path& step_directory) {
  Checkpoint checkpoint(step_directory, read_named_manifest(step_directory));
  const auto damage = damage_of_file(step_directory, checkpoint.manifest_, 0, Verify::Structure);
  if (!damage.empty()) throw Damage(damage.front());
  checkpoint.load_state();
  return checkpoint;
}

void Checkpoint::load_state() {
  const std::filesystem::path shard = directory_ / manifest_.files.front().name;
  try {
    CheckpointState saved = read_shard_state(shard);
    state_ = std::move(saved.state);
    tokenizer_json_ = std::move(saved.tokenizer_json);
  } catch (const Json::exception& error) {
    fail("{}: {}", shard.string(), error.what());
  }
}

const StoredTensor* Checkpoint::find(std::string_view name, std::string_view part) const {
  const auto found = std::find_if(manifest_.tensors.begin(), manifest_.tensors.end(),
                                  [&](const StoredTensor& tensor) { return tensor.name == name && tensor.part == part; });
  return found == manifest_.tensors.end() ? nullptr : &*found;
}

std::filesystem::path Checkpoint::file_of(const Piece& piece) const {
  return directory_ / manifest_.files[static_cast<std::size_t>(piece.file)].name;
}

void Checkpoint::read(std::string_view name, std::string_view part, const Tensor& out) const {
  read(name, part, {{out.sizes().begin(), out.sizes().end()}, Region::whole(out.sizes())}, out);
}

void Checkpoint::read(std::string_view name, std::string_view part, const Placement& place, const Tensor& out) const {
  const StoredTensor* tensor = find(name, part);
  require(tensor != nullptr, "{} has no tensor {} ({})", directory_.string(), name, part);
  require(place.shape == tensor->shape, "tensor {} has shape {} in {} but {} in this model", tensor->label(), describe_shape(tensor->shape),
          directory_.string(), describe_shape(place.shape));
  check_region(place.region, place.shape);
  require(out.contiguous() && out.count() == place.region.count(), "{}: {} is read into {}", tensor->label(), place.region.describe(),
          out.describe());
  for (const Piece& piece : tensor->pieces) read_piece(file_of(piece), *tensor, piece, place.region, out);
}

}  // namespace oxrse::io

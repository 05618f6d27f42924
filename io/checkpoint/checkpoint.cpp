#include "io/checkpoint/checkpoint.h"

#include <algorithm>

#include "io/checkpoint/shard.h"
#include "io/checksum.h"
#include "io/convert.h"
#include "io/file_stream.h"

namespace oxrse::io {
namespace {

bool is_step_directory(const std::filesystem::path& path) { return std::filesystem::exists(path / kManifestName); }

/// The checkpoints directory that `path` is or has.
std::filesystem::path checkpoints_in(const std::filesystem::path& path) {
  require(std::filesystem::is_directory(path),
          "{} is no directory; a checkpoint is a step_... directory, a directory of those or a run directory", path.string());
  const std::filesystem::path inside = path / "checkpoints";
  return std::filesystem::is_directory(inside) ? inside : path;
}

std::string checksum_of(const InputFile& file, const StoredTensor& tensor, const Piece& piece) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(checked_count(piece.shape, tensor.dtype) * size_of(tensor.dtype)));
  file.read(bytes, piece.position);
  return hex(xxh3(bytes));
}

/// Names the tensors whose bytes changed; when none did, it is the structure of the file.
std::vector<std::string> find_damage(const Manifest& manifest, std::int64_t index, const InputFile& file) {
  std::vector<std::string> damage;
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const Piece& piece : tensor.pieces) {
      if (piece.file != index || checksum_of(file, tensor, piece) == piece.xxh3) continue;
      damage.push_back(fmt::format("{} is damaged: the checksum of tensor {} differs", file.path().string(), tensor.label()));
    }
  }
  if (damage.empty()) damage.push_back(fmt::format("{} is damaged outside of its tensors: its checksum differs", file.path().string()));
  return damage;
}

std::vector<std::string> damage_of_file(const std::filesystem::path& directory, const Manifest& manifest, std::int64_t index) {
  const StoredFile& stored = manifest.files[static_cast<std::size_t>(index)];
  try {
    const InputFile file(directory / stored.name);
    if (file.size() != stored.bytes) {
      return {fmt::format("{} has {} bytes where {} were written", file.path().string(), file.size(), stored.bytes)};
    }
    if (hex(xxh3_of_file(file.path())) == stored.xxh3) return {};
    return find_damage(manifest, index, file);
  } catch (const Error& error) {
    return {error.what()};
  }
}

std::vector<std::string> damage_of_files(const std::filesystem::path& directory, const Manifest& manifest) {
  std::vector<std::string> damage;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const auto found = damage_of_file(directory, manifest, static_cast<std::int64_t>(i));
    damage.insert(damage.end(), found.begin(), found.end());
  }
  return damage;
}

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

std::vector<std::string> damage_of(const std::filesystem::path& step_directory) {
  try {
    return damage_of_files(step_directory, read_manifest(step_directory));
  } catch (const Error& error) {
    return {error.what()};
  }
}

bool holds_checkpoint(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) && (is_step_directory(path) || !step_directories(checkpoints_in(path)).empty());
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

Checkpoint Checkpoint::open(const std::filesystem::path& path, const Warn& warn) {
  if (is_step_directory(path)) {
    Checkpoint checkpoint(path, read_manifest(path));
    const auto damage = damage_of_files(path, checkpoint.manifest_);
    require(damage.empty(), "{}", damage.empty() ? "" : damage.front());
    checkpoint.load_state();
    return checkpoint;
  }
  const std::filesystem::path checkpoints = checkpoints_in(path);
  const auto found = find_checkpoints(checkpoints);
  require(!found.empty(), "{} holds no checkpoint (no step_... directory)", checkpoints.string());
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
    const auto damage = damage_of_files(candidate.directory.path, *candidate.manifest);
    for (const std::string& sentence : damage) dismiss(sentence);
    if (!damage.empty()) continue;
    repair_latest(checkpoints, candidate.directory, warn);
    mention_later_steps(found, candidate, warn);
    Checkpoint checkpoint(candidate.directory.path, *candidate.manifest);
    checkpoint.load_state();
    return checkpoint;
  }
  fail("{} holds no whole checkpoint:{}", checkpoints.string(), all_damage);
}

Checkpoint Checkpoint::open_unverified(const std::filesystem::path& path) {
  if (is_step_directory(path)) return {path, read_manifest(path)};
  const auto found = find_checkpoints(checkpoints_in(path));
  require(!found.empty(), "{} holds no checkpoint (no step_... directory)", path.string());
  require(found.front().manifest.has_value(), "{}", found.front().damage);
  return {found.front().directory.path, *found.front().manifest};
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

void Checkpoint::read(std::string_view name, std::string_view part, const Tensor& out) const {
  const StoredTensor* tensor = find(name, part);
  require(tensor != nullptr, "{} has no tensor {} ({})", directory_.string(), name, part);
  const std::span<const std::int64_t> wanted = out.sizes();
  require(std::equal(wanted.begin(), wanted.end(), tensor->shape.begin(), tensor->shape.end()),
          "tensor {} has shape {} in {} but {} in this model", tensor->label(), describe_shape(tensor->shape), directory_.string(),
          describe_shape(wanted));
  if (out.dtype() == tensor->dtype) return read_whole(*tensor, out);
  std::vector<std::byte> stored(static_cast<std::size_t>(tensor->bytes()));
  const Tensor buffer(stored.data(), tensor->dtype, tensor->shape);
  read_whole(*tensor, buffer);
  convert(out, buffer);
}

void Checkpoint::read_whole(const StoredTensor& tensor, const Tensor& out) const {
  require(tensor.pieces.size() == 1 && tensor.pieces.front().shape == tensor.shape,
          "{}: tensor {} is stored in {} pieces, which this program cannot join", directory_.string(), tensor.label(),
          tensor.pieces.size());
  require(out.contiguous(), "a tensor is read into contiguous memory, not {}", out.describe());
  const Piece& piece = tensor.pieces.front();
  const std::filesystem::path path = directory_ / manifest_.files[static_cast<std::size_t>(piece.file)].name;
  const std::span<std::byte> bytes(out.address(), static_cast<std::size_t>(out.bytes()));
  InputFile(path).read(bytes, piece.position);
  require(hex(xxh3(bytes)) == piece.xxh3, "{} is damaged: the checksum of tensor {} differs", path.string(), tensor.label());
}

}  // namespace oxrse::io

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "io/checkpoint/directory.h"
#include "io/checkpoint/piece_reader.h"
#include "io/checkpoint/save.h"

namespace oxrse::io {

/// What is wrong with the files of a step directory, one sentence each that names file and, where it can be told, tensor. Reads
/// every byte. Empty when all is well.
std::vector<std::string> damage_of(const std::filesystem::path& step_directory);

/// Which of the manifest's files are in a step directory as they were written. Reads every byte; `warn` is told of those that are there and
/// damaged.
std::vector<bool> whole_files(const std::filesystem::path& step_directory, const Manifest& manifest, const Warn& warn);

/// What a checkpoint is needed for: its weights, or going on with training.
enum class Need : std::uint8_t { Weights, Everything };

/// True when `path` is a step directory, or a checkpoints or run directory with at least one in it, whole or not. Those that are known
/// to hold weights only do not count when everything is needed.
bool holds_checkpoint(const std::filesystem::path& path, Need need = Need::Weights);

/// The checkpoints directory that `path` is or has; an Error when it is no directory.
std::filesystem::path checkpoints_in(const std::filesystem::path& path);

/// The step directories that `path` is or holds, smallest step first; an Error when there are none.
std::vector<std::filesystem::path> step_directories_in(const std::filesystem::path& path);

/// A saved checkpoint, for reading.
class Checkpoint {
 public:
  /// `path` is a step directory, a checkpoints directory or a run directory (one with checkpoints/ in it). Of the last two, the
  /// checkpoint that was saved last; when that is damaged, `warn` is told and the one before is taken. A LATEST that names no
  /// checkpoint is repaired. Every byte is verified. An Error says what is wrong when there is no whole one.
  static Checkpoint open(const std::filesystem::path& path, const Warn& warn, Need need = Need::Weights);
  /// The same, but the bytes of tensors are verified when `load` reads them, so that each is read once. When that meets damage, `warn` is
  /// told and `load` is called again with the checkpoint before; it must not keep anything of the earlier call. Other Errors of `load`
  /// pass through.
  static void load(const std::filesystem::path& path, const Warn& warn, Need need, const std::function<void(const Checkpoint&)>& load);
  /// A step directory, or the newest one in `path`, of which only the manifest is read and verified, for looking at damaged ones.
  static Checkpoint open_unverified(const std::filesystem::path& path);
  /// A step directory that has the first of its files and any of the others. Tensors are verified when they are read; what lies in a file
  /// that is not there is an Error then.
  static Checkpoint open_part(const std::filesystem::path& step_directory);

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  [[nodiscard]] std::int64_t step() const { return manifest_.step; }
  [[nodiscard]] const Json& config() const { return manifest_.config; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return manifest_.tensors; }
  /// "rng", "sampler", ... as they were given to save_checkpoint.
  [[nodiscard]] const Json& state() const { return state_; }
  /// Empty when none was saved.
  [[nodiscard]] const std::string& tokenizer_json() const { return tokenizer_json_; }

  [[nodiscard]] bool has(std::string_view name, std::string_view part) const { return find(name, part) != nullptr; }
  /// Fills `out` (contiguous, of any floating type) with a tensor, whatever pieces it is stored in; needs memory for a few MiB. An Error
  /// names the tensor and both shapes when they differ; Damage when the bytes are not what was saved: then `out` holds garbage.
  void read(std::string_view name, std::string_view part, const Tensor& out) const;
  /// Fills `out` with the part of a tensor that `place` says.
  void read(std::string_view name, std::string_view part, const Placement& place, const Tensor& out) const;

 private:
  Checkpoint(std::filesystem::path directory, Manifest manifest);
  static Checkpoint first_whole(const std::filesystem::path& path, const Warn& warn, Need need,
                                const std::function<std::vector<std::string>(Checkpoint&)>& try_it);
  void load_state();
  [[nodiscard]] std::filesystem::path file_of(const Piece& piece) const;
  [[nodiscard]] const StoredTensor* find(std::string_view name, std::string_view part) const;

  std::filesystem::path directory_;
  Manifest manifest_;
  Json state_ = Json::object();
  std::string tokenizer_json_;
};

}  // namespace oxrse::io

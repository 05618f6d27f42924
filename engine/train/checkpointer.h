#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/train/copy_save.h"
#include "engine/train/joint_save.h"
#include "engine/train/peer_copies.h"
#include "engine/train/saving.h"
#include "io/background.h"
#include "io/checkpoint/snapshot.h"

namespace oxrse::train {

/// What the checkpoints of a run have cost so far.
struct SaveTotals {
  std::int64_t saved = 0;
  std::int64_t skipped = 0;  // because the one before was still being written
  double stall_ms = 0;       // training stood still, all saves together
  double write_ms = 0;       // until they were on the disk, all saves together
  std::int64_t bytes = 0;    // of the tensors of a complete checkpoint
  double written_bytes = 0;  // of tensors, all saves together
};

/// Saves the checkpoints of a run, in the background where the config says so: then training stands still only for a copy. All ranks of the
/// training have one and make the same calls; each writes its share of the files and of copies in memory (checkpoint.peer).
class Checkpointer {
 public:
  /// Is given one line for people.
  using Note = std::function<void(const std::string&)>;

  /// Where checkpoints go: the same files on all ranks. Copies in memory are extra: one that cannot be made is a warning.
  struct Places {
    std::filesystem::path files;
    const PeerCopies* copies = nullptr;
  };

  /// Takes the memory for copies if it will need it. `tokenizer_json` may be empty; `data` absent.
  Checkpointer(Training& training, const Config& config, Places places, std::string tokenizer_json, const io::Dataset* data, Note note);

  /// Whether a config makes copies; the plan counts them.
  static bool copies(const Config& config) {
    return config.checkpoint.async && (config.checkpoint.every > 0 || config.checkpoint.weights_every > 0);
  }

  /// The state that is on the disk already, after a resume.
  void resumed_at(std::int64_t step) { saved_step_ = step; }
  /// Saves where the run stands, or begins to. An Error when this, or what was still being written, fails. Returns how long training
  /// stood still, in ms.
  double save(const Progress& progress, bool weights_only = false);
  /// Says what has been written since the last call; an Error when that failed.
  void collect();
  /// Waits until everything is on the disk, saving where the run stands, in files, if that is not there yet.
  void finish(const Progress& progress);

  /// The same by the first rank alone, without the others, when all ranks have everything.
  void finish_alone(const Progress& progress);

  [[nodiscard]] const SaveTotals& totals() const { return totals_; }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] io::CheckpointState state_of(const Progress& progress, bool weights_only);
  [[nodiscard]] std::vector<io::CheckpointEntry> entries(const io::CheckpointConfig& config, bool weights_only) const;
  void begin(const io::CheckpointState& state);
  void write(const io::CheckpointState& state, std::span<const io::CheckpointEntry> entries, std::span<const io::CheckpointEntry> checked);
  void commit(const io::CheckpointState& state, std::vector<std::string>& warnings);
  double save_now(const Progress& progress, bool weights_only);
  double save_in_background(const Progress& progress, bool weights_only);
  void wait_visibly();
  void end_phase();
  void end_background();
  [[nodiscard]] bool copying() const { return copies_ && copies_->going_on(); }
  void report(const std::optional<std::string>& problem);
  [[nodiscard]] bool alone() const { return joint_.writer().count == 1; }
  void saved(const io::CheckpointState& state, std::int64_t bytes, double stall_ms, double write_ms,
             const std::vector<std::string>& warnings);

  Training& training_;
  Config config_;
  std::filesystem::path files_;
  JointSave joint_;
  std::optional<CopySave> copies_;
  bool whole_ = false;  // saves everything, also where others have the same
  std::string tokenizer_json_;
  const io::Dataset* data_;
  Note note_;
  SaveTotals totals_;
  std::int64_t saved_step_ = -1;  // the last complete one in files
  std::int64_t begun_step_ = -1;  // the last one that was begun

  /// Files that are being written: by one rank all in the background; by several their shards, then the commit. The background thread
  /// writes `warnings` and `end`; they are read when it is idle.
  struct InFlight {
    io::CheckpointState state;
    std::int64_t bytes = 0;
    bool commits = false;
    double stall_ms = 0;
    Clock::time_point begin{}, end{};
    std::vector<std::string> warnings{};
  };
  std::optional<io::Snapshot> snapshot_;
  std::optional<InFlight> in_flight_;
  std::optional<io::Background> background_;  // last: ends before what it uses
};

}  // namespace oxrse::train

#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "engine/train/joint_save.h"
#include "engine/train/nodes.h"

namespace oxrse::train {

/// Saves copies of checkpoints in the memory of the nodes: every rank writes its shard, which is what it writes to files too, to its node's
/// directory; the shard is then sent to the rank's partner on the next node, which puts it into the directory there. With all shards of a
/// step on two nodes each, any one of them can be lost.
///
/// All ranks make the calls marked *together* in the same order. What fails anywhere is no error: this copy is given up on all nodes and
/// the one before stays.
class CopySave {
 public:
  /// `directory` is that of this rank's node; `ranks` may be absent: one rank.
  CopySave(comm::Communicator* ranks, Nodes nodes, std::filesystem::path directory);

  /// Together: begins the copy of a step. The one before must have ended.
  void begin(const io::CheckpointState& state);
  /// Writes this rank's shard, if `failure` is empty: otherwise that is why there is none. Talks to nobody; may be called by another
  /// thread.
  void write(std::span<const io::CheckpointEntry> entries, const std::string& failure);

  /// Whether a copy is being made: the same on all ranks.
  [[nodiscard]] bool going_on() const { return stage_ != Stage::None; }
  /// Whether this rank still writes, or its messages are on their way.
  [[nodiscard]] bool busy() const;
  /// Together, when no rank is busy: sends what has been written, or ends what has been sent. Returns why there is no copy, if there is
  /// none now.
  std::optional<std::string> advance();
  /// Together, when all have written: does all that is left, waiting where necessary.
  std::optional<std::string> finish();

 private:
  enum class Stage : std::uint8_t { None, Writing, Sending };
  struct Transfer;

  void send();
  void end();
  void give_up();

  comm::Communicator* ranks_;
  Nodes nodes_;
  std::filesystem::path directory_;
  JointSave save_;
  io::CheckpointState state_;
  Stage stage_ = Stage::None;
  std::atomic<bool> written_{false};
  std::shared_ptr<Transfer> transfer_;  // also kept by the communicator, as long as messages are on their way
  std::optional<std::int64_t> newest_;  // step of the newest copy that all nodes have
};

}  // namespace oxrse::train

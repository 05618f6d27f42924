#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "io/checkpoint/config.h"
#include "io/checkpoint/directory.h"
#include "io/checkpoint/memory_directory.h"

namespace oxrse::train {

/// Copies of a run's newest checkpoint in the memory of its nodes (checkpoint.peer), from which it goes on when it is started again after a
/// process or a node was lost. All ranks have one of these objects; the first rank of each node writes and reads its node's directory.
class PeerCopies {
 public:
  /// `run` names the run among all: its directory and what was drawn at random when that was made, so that copies of another run that was
  /// there before are not taken for its own. `ranks` is absent for a single one. An Error when there is no room for two copies of `bytes`.
  PeerCopies(const io::CheckpointConfig& config, const std::string& run, std::int64_t bytes, comm::Communicator* ranks, bool first_of_node);

  /// Removes what a run with checkpoint.peer left on this node, for the run that goes on without.
  static void forget(const io::CheckpointConfig& config, const std::string& run);

  /// Where this rank is to save its node's copies; nothing for all but the first of a node.
  [[nodiscard]] std::optional<std::filesystem::path> directory() const;
  /// Starts the process that frees the memory when nobody comes back.
  void start_holder(const std::filesystem::path& program) const;

  /// The copy to go on from, on every rank: the newest whole one that any node has, sent to nodes that lack it, unless `newest_file`, the
  /// step of the newest checkpoint in files (-1: none), is of a later step. Copies that are not chosen are removed: they would not be of
  /// the run that goes on. Each byte is verified first. `warn` is told what is wrong and why there is none.
  std::optional<std::filesystem::path> choose(std::int64_t newest_file, const io::Warn& warn);
  /// Removes the copies: the run goes on from elsewhere.
  void discard() const;
  /// When the end of the run is in files on all ranks: frees the memory.
  void end();

 private:
  [[nodiscard]] std::int64_t newest_whole(const io::Warn& warn) const;
  void send(const std::filesystem::path& step_directory, int root, bool lacking) const;
  [[nodiscard]] std::vector<double> of_all_ranks(double mine, const char* what) const;

  comm::Communicator* ranks_;
  std::filesystem::path path_;  // of the node's directory
  std::optional<io::MemoryDirectory> memory_;
};

}  // namespace oxrse::train

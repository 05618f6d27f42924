#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/core/json.h"
#include "engine/train/nodes.h"
#include "io/checkpoint/config.h"
#include "io/checkpoint/directory.h"
#include "io/checkpoint/memory_directory.h"

namespace oxrse::train {

/// Copies of a run's newest checkpoint in the memory of its nodes (checkpoint.peer), from which it goes on when it is started again after a
/// process or a node was lost. Each node's directory has the manifest, the shards of its ranks and those that partners sent (CopySave). All
/// ranks have one of these objects and make the same calls; the first rank of each node holds its node's directory.
class PeerCopies {
 public:
  /// `run` names the run among all: its directory and what was drawn at random when that was made, so that copies of another run that was
  /// there before are not taken for its own. `bytes` is what this rank saves, `first_of_node` the first rank of its machine; `ranks` is
  /// absent for a single one. An Error when a node has no room for two copies of what it keeps.
  PeerCopies(const io::CheckpointConfig& config, const std::string& run, std::int64_t bytes, comm::Communicator* ranks, int first_of_node);

  /// Removes what a run with checkpoint.peer left on this node, for the run that goes on without.
  static void forget(const io::CheckpointConfig& config, const std::string& run);

  [[nodiscard]] const Nodes& nodes() const { return nodes_; }
  /// That of this rank's node.
  [[nodiscard]] const std::filesystem::path& directory() const { return path_; }
  /// Starts the process that frees the memory when nobody comes back.
  void start_holder(const std::filesystem::path& program) const;

  /// The step directory to go on from, on every rank: that of the newest copy whose files all are whole on some node, unless `newest_file`,
  /// the step of the newest checkpoint in files (-1: none), is of a later step. It has a manifest and what its node kept; each byte was
  /// verified. Copies that are not chosen are removed: they would not be of the run that goes on. `warn` is told what is wrong and why
  /// there is none.
  std::optional<std::filesystem::path> choose(std::int64_t newest_file, const io::Warn& warn);
  /// Brings the files of what was chosen that this rank needs to its node. False on all ranks when that fails on one: then `warn` is told
  /// and the copies are removed.
  bool fetch(const std::vector<bool>& needed, const io::Warn& warn);
  /// Removes the copies: the run goes on from elsewhere.
  void discard();
  /// When the end of the run is in files on all ranks: frees the memory.
  void end();

 private:
  /// A copy as all nodes together have it.
  struct Copy {
    std::int64_t step = 0;
    Json files;                  // names, sizes and checksums
    int manifest_at = 0;         // a node that has its manifest
    std::vector<int> holders;    // of each file: a node that has it whole; -1: none
    bool manifest_here = false;  // on this node
    std::vector<bool> here;      // the files that are whole on this node
  };

  [[nodiscard]] Json found_here(const io::Warn& warn) const;
  [[nodiscard]] std::vector<Copy> found_on_all(const io::Warn& warn) const;
  bool place_manifest(const io::Warn& warn);
  bool agree(const std::string& failure, const io::Warn& warn);
  [[nodiscard]] std::string from(int rank, const std::string& text) const;
  void send(std::size_t file, const std::string& name, std::int64_t bytes, bool wanted_here, std::string& failure) const;
  [[nodiscard]] bool speaks() const { return nodes_.rank() == 0; }

  comm::Communicator* ranks_;
  Nodes nodes_;
  std::filesystem::path path_;  // of the node's directory
  std::optional<io::MemoryDirectory> memory_;
  std::optional<Copy> chosen_;
};

}  // namespace oxrse::train

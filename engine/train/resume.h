#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/train/peer_copies.h"
#include "engine/train/ranks.h"
#include "engine/train/run_directory.h"
#include "engine/train/saving.h"

namespace oxrse::train {

/// What a run goes on from, if anything: its newest whole checkpoint in files, or a later one in the memory of its nodes. All ranks have
/// one of these objects and make the same calls.
class Resume {
 public:
  /// Looks for files. `resume` is as for train(), `directory` the run's, on the first rank, which looks for all. An Error when `resume` is
  /// "never" and there are some.
  Resume(Ranks& ranks, std::string resume, const RunDirectory* directory);

  /// Looks for a later copy there; where the run goes on from elsewhere, copies are removed.
  void look_into(PeerCopies& copies);

  /// An Error lists what a run with the config `effective` may not change; that another device goes on is a warning.
  void check(const Json& effective) const;

  /// Takes everything from what was found; nothing when the run begins. A copy that turns out not to be whole, or a damaged checkpoint,
  /// gives way to the next one, with a warning. With a shared optimizer, Training::share_weights must follow on all ranks.
  std::optional<Progress> restore(Training& training, const io::Dataset* data, const Json& effective);
  /// Whether that was a checkpoint in files.
  [[nodiscard]] bool took_files() const { return took_files_; }

 private:
  std::optional<Progress> restore_copy(Training& training, const io::Dataset* data);
  Progress restore_files(Training& training, const io::Dataset* data, const Json& effective);

  Ranks& ranks_;
  std::string resume_;
  const RunDirectory* directory_;
  std::optional<std::filesystem::path> files_, copy_;
  PeerCopies* copies_ = nullptr;
  bool took_files_ = false;
};

}  // namespace oxrse::train

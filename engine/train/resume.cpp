#include "engine/train/resume.h"

#include <functional>
#include <utility>

#include "engine/train/terminal.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/directory.h"

namespace oxrse::train {
namespace {

/// Where the checkpoint is that a run goes on from, if there is one. Refuses a directory that holds another run.
std::optional<std::filesystem::path> checkpoint_to_resume(const std::string& resume, const RunDirectory& directory) {
  const bool exists = io::holds_checkpoint(directory.checkpoints(), io::Need::Everything);
  require(resume != "never" || !exists,
          "{}: holds checkpoints of an earlier run: set run.dir to another directory, remove this one, or leave out --resume never",
          directory.path().string());
  if (resume == "never" || (resume == "auto" && !exists)) return std::nullopt;
  return resume == "auto" ? directory.checkpoints() : std::filesystem::path(resume);
}

/// The step of the complete checkpoint in files that was saved last; -1 when there is none.
std::int64_t newest_step(const RunDirectory& directory) {
  if (!std::filesystem::exists(directory.checkpoints())) return -1;
  for (const io::FoundCheckpoint& found : io::find_checkpoints(directory.checkpoints())) {
    if (found.manifest && !found.manifest->weights_only) return found.directory.step;
  }
  return -1;
}

/// Calls `restore` on every rank; what is damaged for one of them is damaged for all, so that all go on from the same checkpoint.
void restore_together(Ranks& ranks, const std::filesystem::path& directory, const std::function<void()>& restore) {
  std::optional<io::Damage> damage;
  try {
    restore();
  } catch (const io::Damage& found) {
    damage = found;
  }
  if (!ranks.any(damage.has_value())) return;
  if (damage) throw io::Damage(*damage);
  throw io::Damage(directory.string() + " is damaged where another rank reads it");
}

void require_same_run(const io::Checkpoint& checkpoint, const Json& effective) {
  const std::vector<std::string> different = incompatibilities(checkpoint.config(), effective);
  if (different.empty()) return;
  std::string list;
  for (const std::string& line : different) list += "\n  " + line;
  fail("{}: was made with another config; set run.dir to another directory for a new run, or restore (before -> now):{}",
       checkpoint.directory().string(), list);
}

/// Another device computes the same up to rounding.
void warn_of_device(const io::Checkpoint& checkpoint, const Json& effective) {
  const auto device_of = [](const Json& config) {
    const std::string name = config.value("/run/device"_json_pointer, "auto");
    return name == "auto" ? "cpu" : name;
  };
  const std::string before = device_of(checkpoint.config()), now = device_of(effective);
  if (before == now) return;
  warn(fmt::format("{} was saved on run.device \"{}\", the run goes on on \"{}\": with the same numbers up to rounding, not the same bits",
                   checkpoint.directory().string(), before, now));
}

}  // namespace

Resume::Resume(Ranks& ranks, std::string resume, const RunDirectory* directory)
    : ranks_(ranks), resume_(std::move(resume)), directory_(directory) {
  std::optional<std::filesystem::path> found;
  if (directory_ != nullptr) found = checkpoint_to_resume(resume_, *directory_);
  const std::string path = ranks_.from_first(found ? found->string() : "");
  if (!path.empty()) files_ = path;
}

void Resume::look_into(PeerCopies& copies) {
  copies_ = &copies;
  if (resume_ != "auto") return copies.discard();
  copy_ = copies.choose(std::stoll(ranks_.from_first(std::to_string(directory_ != nullptr ? newest_step(*directory_) : -1))), warn);
}

void Resume::check(const Json& effective) const {
  if (!copy_ && !files_) return;
  const io::Checkpoint saved = io::Checkpoint::open_unverified(copy_ ? *copy_ : *files_);
  require_same_run(saved, effective);
  if (ranks_.first()) warn_of_device(saved, effective);
}

std::optional<Progress> Resume::restore(Training& training, const io::Dataset* data, const Json& effective) {
  if (copy_) {
    if (const auto progress = restore_copy(training, data)) return progress;
  }
  if (!files_) return std::nullopt;
  took_files_ = true;
  return restore_files(training, data, effective);
}

/// Nothing on all ranks, with a warning, when the copy turns out not to be whole and files can take its place.
std::optional<Progress> Resume::restore_copy(Training& training, const io::Dataset* data) {
  if (!copies_->fetch(files_to_restore(training, io::read_manifest(*copy_)), warn)) return std::nullopt;
  Progress progress;
  try {
    restore_together(ranks_, *copy_, [&] { progress = train::restore(training, io::Checkpoint::open_part(*copy_), data); });
  } catch (const io::Damage& damage) {
    copies_->discard();
    if (!files_) throw;
    warn(fmt::format("{}; this copy is not used", damage.what()));
    return std::nullopt;
  }
  show(fmt::format("resumed  {} at step {}\n", copy_->string(), progress.step));
  return progress;
}

Progress Resume::restore_files(Training& training, const io::Dataset* data, const Json& effective) {
  Progress progress;
  io::Checkpoint::load(*files_, warn, io::Need::Everything, [&](const io::Checkpoint& checkpoint) {
    require_same_run(checkpoint, effective);
    restore_together(ranks_, checkpoint.directory(), [&] { progress = train::restore(training, checkpoint, data); });
    show(fmt::format("resumed  {} at step {}\n", checkpoint.directory().string(), progress.step));
  });
  return progress;
}

}  // namespace oxrse::train

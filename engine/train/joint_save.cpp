#include "engine/train/joint_save.h"

#include <optional>
#include <utility>

#include "engine/train/failure.h"

namespace oxrse::train {

JointSave::JointSave(comm::Communicator* ranks, std::filesystem::path checkpoints, bool coordinates)
    : ranks_(ranks), checkpoints_(std::move(checkpoints)), coordinates_(coordinates) {}

io::Writer JointSave::writer() const { return {ranks_ == nullptr ? 0 : ranks_->rank(), size()}; }

std::string JointSave::from(int rank, const std::string& text, const char* what) {
  return ranks_ == nullptr ? text : ranks_->broadcast(text, rank, what);
}

/// Disks may be slow: without a limit of time, as long as all live.
void JointSave::wait_for_all(const char* what) {
  if (ranks_ != nullptr) ranks_->barrier(what, false);
}

void JointSave::sum(std::span<double> here) {
  if (ranks_ != nullptr) ranks_->all_reduce(here, "state of the checkpoint");
}

bool JointSave::failed_anywhere() {
  double failed = failure_.empty() ? 0 : 1;
  sum({&failed, 1});
  return failed > 0;
}

void JointSave::begin(std::int64_t step) {
  step_ = step;
  failure_.clear();
  given_up_ = false;
  directory_ = io::unfinished_save(checkpoints_, step);
  if (coordinates_) attempt([&] { io::begin_save(checkpoints_, step); });
  given_up_ = failed_anywhere();
}

void JointSave::attempt(const std::function<void()>& work) {
  if (failure_.empty() && !given_up_) failure_ = failure_of(work);
}

void JointSave::write(const io::CheckpointState& state, std::span<const io::CheckpointEntry> entries, const io::SaveOptions& options) {
  attempt([&] {
    io::check_entries(entries);
    std::optional<io::BaseCheckpoint> base;
    if (options.incremental) base = io::base_for_links(checkpoints_);
    shard_ = io::write_shard(directory_, writer(), state, entries, {.compress = options.compress, .base = base ? &*base : nullptr});
  });
  bytes_ = 0;
  for (const io::CheckpointEntry& entry : entries) bytes_ += entry.tensor.bytes();
}

std::int64_t JointSave::exchange() {
  wait_for_all("writing of the checkpoint");
  agree(fmt::format("checkpoint of step {} not saved: ", step_));
  shards_.clear();
  std::int64_t bytes = 0;
  for (int rank = 0; rank < size(); ++rank) {
    const Json mine = {{"bytes", bytes_}, {"shard", to_json(shard_)}};
    const Json said = ranks_ == nullptr ? mine : Json::parse(from(rank, mine.dump(), "checkpoint"));
    shards_.push_back(io::shard_summary(said.at("shard")));
    bytes += said.at("bytes").get<std::int64_t>();
  }
  return bytes;
}

void JointSave::agree(const std::string& what) {
  if (!failed_anywhere()) return;
  const std::string failures = all_failures();
  if (coordinates_) io::abandon_save(checkpoints_, step_);
  throw AgreedError(what + failures);
}

std::string JointSave::all_failures() {
  std::string failures;
  for (int rank = 0; rank < size(); ++rank) {
    const std::string failure = from(rank, failure_, "checkpoint");
    if (failure.empty() || failures.find(failure) != std::string::npos) continue;
    if (!failures.empty()) failures += '\n';
    if (size() > 1) failures += fmt::format("rank {}: ", rank);
    failures += failure;
  }
  return failures;
}

void JointSave::commit(const io::CheckpointState& state, std::int64_t keep, const io::Warn& warn) {
  if (coordinates_) attempt([&] { io::commit_save(checkpoints_, state, shards_, keep, warn); });
}

void JointSave::conclude() {
  wait_for_all("committing of the checkpoint");
  agree();
}

}  // namespace oxrse::train

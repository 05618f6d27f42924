#include "engine/train/joint_save.h"

#include <optional>
#include <utility>

namespace oxrse::train {
namespace {

/// Calls `f` and returns what its Error says, "" without one.
std::string failure_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

JointSave::JointSave(comm::Communicator* ranks, std::filesystem::path checkpoints) : ranks_(ranks), checkpoints_(std::move(checkpoints)) {}

io::Writer JointSave::writer() const { return {ranks_ == nullptr ? 0 : ranks_->rank(), size()}; }

std::string JointSave::from(int rank, const std::string& text, const char* what) {
  return ranks_ == nullptr ? text : ranks_->broadcast(text, rank, what);
}

/// Disks may be slow: without a limit of time, as long as all live.
void JointSave::wait_for_all(const char* what) {
  if (ranks_ != nullptr) ranks_->barrier(what, false);
}

double JointSave::sum(double here) {
  if (ranks_ != nullptr) ranks_->all_reduce({&here, 1}, "state of the checkpoint");
  return here;
}

void JointSave::begin(std::int64_t step) {
  step_ = step;
  failure_.clear();
  if (first()) attempt([&] { directory_ = io::begin_save(checkpoints_, step); });
  failure_ = from(0, failure_, "checkpoint begins");
  directory_ = from(0, directory_.string(), "directory of the checkpoint");
}

void JointSave::attempt(const std::function<void()>& work) {
  if (failure_.empty()) failure_ = failure_of(work);
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
  shards_.clear();
  std::string failures;
  std::int64_t bytes = 0;
  for (int rank = 0; rank < size(); ++rank) {
    const Json mine = {{"failure", failure_}, {"bytes", bytes_}, {"shard", failure_.empty() ? to_json(shard_) : Json()}};
    const Json said = ranks_ == nullptr ? mine : Json::parse(from(rank, mine.dump(), "checkpoint"));
    const auto failure = said.at("failure").get<std::string>();
    if (failure.empty()) {
      shards_.push_back(io::shard_summary(said.at("shard")));
      bytes += said.at("bytes").get<std::int64_t>();
    } else if (failures.find(failure) == std::string::npos) {
      if (!failures.empty()) failures += '\n';
      if (size() > 1) failures += fmt::format("rank {}: ", rank);
      failures += failure;
    }
  }
  if (failures.empty()) return bytes;
  if (first()) io::abandon_save(checkpoints_, step_);
  throw AgreedError(fmt::format("checkpoint of step {} not saved: {}", step_, failures));
}

void JointSave::commit(const io::CheckpointState& state, std::int64_t keep, const io::Warn& warn) {
  if (first()) attempt([&] { io::commit_save(checkpoints_, state, shards_, keep, warn); });
}

void JointSave::conclude() {
  wait_for_all("committing of the checkpoint");
  failure_ = from(0, failure_, "checkpoint ends");
  if (!failure_.empty()) throw AgreedError(failure_);
}

}  // namespace oxrse::train

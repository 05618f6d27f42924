#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "io/checkpoint/save.h"

namespace oxrse::train {

/// An Error that all ranks throw at the same place, so that they can still do something together.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// The saving of one checkpoint by all ranks of a run: each writes a shard, the first one of those that share a directory makes it and
/// commits. The calls marked *together* are made by all ranks in the same order; the others talk to nobody and may be made by another
/// thread. What fails on one rank is an AgreedError on all at the next `exchange` or `conclude`; then nothing has changed.
class JointSave {
 public:
  /// `ranks` may be absent: one rank. `coordinates`: this rank makes and commits the directory of the shards, which is in `checkpoints`.
  JointSave(comm::Communicator* ranks, std::filesystem::path checkpoints, bool coordinates);

  /// Together: makes room for the shards of a step.
  void begin(std::int64_t step);
  /// Does what may fail on this rank only, unless something failed before.
  void attempt(const std::function<void()>& work);
  /// Writes this rank's shard with its share of the tensors, unless something failed before.
  void write(const io::CheckpointState& state, std::span<const io::CheckpointEntry> entries, const io::SaveOptions& options);
  /// Together: waits until all have written. Returns the bytes of tensors.
  std::int64_t exchange();
  /// What all have written, by rank; after `exchange`.
  [[nodiscard]] const std::vector<io::ShardSummary>& shards() const { return shards_; }
  /// Where the shards are until they are committed.
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  /// On the rank that coordinates: makes the checkpoint of the shards. Nothing on the others.
  void commit(const io::CheckpointState& state, std::int64_t keep, const io::Warn& warn);
  /// Together: waits until it is committed.
  void conclude();

  /// Together: sums over the ranks.
  void sum(std::span<double> here);
  /// Together: where `attempt` met an error on any rank, removes the shards and throws an AgreedError that begins with `what` and names the
  /// ranks.
  void agree(const std::string& what = "");
  [[nodiscard]] io::Writer writer() const;

 private:
  [[nodiscard]] int size() const { return ranks_ == nullptr ? 1 : ranks_->size(); }
  std::string from(int rank, const std::string& text, const char* what);
  void wait_for_all(const char* what);
  bool failed_anywhere();  // together
  /// "rank 1: cannot write ...", a line for every rank with another failure. Together.
  std::string all_failures();

  comm::Communicator* ranks_;
  std::filesystem::path checkpoints_;
  bool coordinates_;
  std::filesystem::path directory_;
  std::int64_t step_ = 0;
  std::string failure_;    // on this rank
  bool given_up_ = false;  // it failed somewhere before shards could be written
  io::ShardSummary shard_;
  std::int64_t bytes_ = 0;  // of the shard's tensors
  std::vector<io::ShardSummary> shards_;
};

}  // namespace oxrse::train

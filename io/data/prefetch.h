#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/data/dataset.h"

namespace oxrse::io {

/// Which samples are asked for in order: of every `period`, `count` from `first` on. (All, unless said otherwise; a rank asks for its share
/// of every global batch.)
struct ReadOrder {
  std::int64_t first = 0, count = 1, period = 1;

  [[nodiscard]] bool contains(std::int64_t n) const { return n % period >= first && n % period < first + count; }
  /// The place of sample `n` among those that are asked for, and the sample at a place.
  [[nodiscard]] std::int64_t place_of(std::int64_t n) const { return n / period * count + n % period - first; }
  [[nodiscard]] std::int64_t sample_at(std::int64_t place) const { return place / count * period + first + place % count; }
};

/// A dataset whose next samples a thread of its own reads while others compute. It gives the very samples of the other one: what was read
/// ahead is used when samples are asked for in order, and forgotten after a jump; samples that are not in the order are read when asked
/// for. An Error comes with the sample that it is about.
///
/// The thread ends with the object. In a training run it must be made after train::StopRequests, so that it blocks signals.
class PrefetchedDataset final : public Dataset {
 public:
  /// Samples of `context` tokens, at most `ahead` of them read ahead: 16 bytes a token. `data` must outlive this.
  PrefetchedDataset(const Dataset& data, std::int64_t context, std::int64_t ahead, ReadOrder order = {});
  PrefetchedDataset(const PrefetchedDataset&) = delete;
  PrefetchedDataset& operator=(const PrefetchedDataset&) = delete;
  ~PrefetchedDataset() override;

  [[nodiscard]] std::int64_t samples_per_epoch() const override { return data_.samples_per_epoch(); }
  [[nodiscard]] std::int64_t tokens() const override { return data_.tokens(); }
  [[nodiscard]] std::uint64_t fingerprint() const override { return data_.fingerprint(); }
  [[nodiscard]] std::string describe() const override { return data_.describe(); }
  void read(std::int64_t n, const Row& row) const override;

 private:
  struct Slot {
    std::vector<std::int32_t> tokens;  // inputs, targets, positions and document starts, one after the other
    std::exception_ptr error;
  };
  [[nodiscard]] Row row_in(Slot& slot) const;
  [[nodiscard]] Slot& slot_of(std::int64_t place) const { return slots_[static_cast<std::size_t>(place) % slots_.size()]; }
  void work();

  const Dataset& data_;
  std::size_t context_;
  ReadOrder order_;

  mutable std::mutex guard_;  // of what follows; a slot belongs to the thread until `ready_` has passed it
  mutable std::condition_variable changed_;
  mutable std::vector<Slot> slots_;
  mutable std::int64_t next_ = 0;   // the place in the order of the sample that is asked for next unless there is a jump
  mutable std::int64_t ready_ = 0;  // samples of places next_ .. ready_-1 are in their slots
  mutable std::int64_t jumps_ = 0;
  bool ending_ = false;

  std::thread thread_;  // last, so that it starts when all the rest is there
};

}  // namespace oxrse::io

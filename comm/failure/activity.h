#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace oxrse::comm {

/// What a rank is doing. Made in memory that another process shares, which can tell it when the rank is gone; so it holds no addresses.
/// One thread writes.
class Activity {
 public:
  void at_step(std::int64_t step) { step_ = step; }
  /// A collective operation begins; `what` describes it.
  void begin(std::uint64_t sequence, const std::string& what);
  /// One of the operations that have begun has ended.
  void end() { ++ended_; }

  /// "at step 7, in operation 48, all_reduce of 1000 f32 by ring (gradients)".
  [[nodiscard]] std::string describe() const;

 private:
  // A text is complete before its number is, and stays while the next is written.
  static constexpr std::size_t kTexts = 4;

  std::atomic<std::int64_t> step_ = -1;
  std::atomic<std::uint64_t> begun_ = 0, ended_ = 0, sequence_ = 0;
  std::array<std::array<char, 200>, kTexts> texts_{};
};

}  // namespace oxrse::comm

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "engine/train/training.h"

namespace oxrse::train {

/// Prints `text` at once. That nobody can read it any more, because the terminal or the pipe is gone, does not end a run: it is not an
/// error.
void show(const std::string& text);

/// Prints a warning on stderr, whether or not anybody reads it.
void warn(const std::string& text);

/// What a person sees of a run: notes, one aligned line a logged step, and on a terminal a progress bar below them.
class Terminal {
 public:
  /// `start` is the step the run begins at, `steps` the one it ends at; a line is printed every `log_every` steps (0: never).
  Terminal(std::int64_t start, std::int64_t steps, std::int64_t log_every);
  ~Terminal() { clear_bar(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// A line of its own.
  void note(const std::string& text);
  /// A finished step (counted from 1) that took `step_ms`.
  void step(std::int64_t step, const StepReport& report, double step_ms, double tokens_per_s);

 private:
  void clear_bar();
  void draw_bar(std::int64_t step);
  [[nodiscard]] std::string eta(std::int64_t step) const;

  using Clock = std::chrono::steady_clock;
  std::int64_t start_, steps_, log_every_;
  bool interactive_;
  bool bar_ = false;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_;
};

/// "3 s", "2:05", "1:02:03".
std::string format_duration(double seconds);

}  // namespace oxrse::train

#pragma once

#include <chrono>
#include <string>

#include "io/data/progress.h"

namespace oxrse::tools {

/// A progress bar with speed and time left, one line on a terminal (stderr) that is written over; nothing elsewhere.
class ProgressLine {
 public:
  void show(const io::Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;         // the job that is being shown
  Clock::time_point begin_;  // when it began,
  std::int64_t first_ = 0;   // and how far it was then: a job may go on where an earlier one was
  Clock::time_point drawn_;
};

/// "[########............]  40%  tokenising 120.0 of 300.0 MB, 41.3 MB/s, 4 s left": `done` of `total` after `seconds` in which `gained`
/// were done.
std::string progress_text(const io::Progress& progress, std::int64_t gained, double seconds);

}  // namespace oxrse::tools

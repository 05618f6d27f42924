#include "tools/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "engine/train/terminal.h"

namespace oxrse::tools {

std::string progress_text(const io::Progress& progress, std::int64_t gained, double seconds) {
  constexpr double kWidth = 20;
  const double share = static_cast<double>(progress.done) / static_cast<double>(progress.total);
  const auto filled = static_cast<std::size_t>(kWidth * share);
  const bool is_bytes = progress.unit == "bytes";
  const double scale = is_bytes ? 1e-6 : 1;
  const auto amount = [&](double value) { return fmt::format("{:.{}f}", value * scale, is_bytes ? 1 : 0); };
  const std::string_view unit = is_bytes ? "MB" : progress.unit;
  std::string text = fmt::format("[{:.<20}] {:3.0f}%  {} {} of {} {}", std::string(filled, '#'), 100 * share, progress.what,
                                 amount(static_cast<double>(progress.done)), amount(static_cast<double>(progress.total)), unit);
  if (gained <= 0 || seconds < 0.5) return text;
  const double speed = static_cast<double>(gained) / seconds;
  const double left = static_cast<double>(progress.total - progress.done) / speed;
  return text + fmt::format(", {} {}/s, {} left", amount(speed), unit, train::format_duration(left));
}

void ProgressLine::show(const io::Progress& progress) {
  if (isatty(STDERR_FILENO) == 0 || progress.total == 0) return;
  const auto now = Clock::now();
  if (what_ != progress.what) {
    what_ = progress.what;
    begin_ = now;
    first_ = progress.done;
  }
  const bool ended = progress.done == progress.total;
  if (!ended && now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  fmt::print(stderr, "\r{}\x1b[K{}", progress_text(progress, progress.done - first_, seconds), ended ? "\n" : "");
}

}  // namespace oxrse::tools

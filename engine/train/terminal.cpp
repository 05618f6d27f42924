#include "engine/train/terminal.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "engine/train/plan.h"

namespace oxrse::train {

void show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void warn(const std::string& text) { std::fputs(("warning: " + text + "\n").c_str(), stderr); }

std::string format_duration(double seconds) {
  const std::int64_t s = std::lround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

Terminal::Terminal(std::int64_t start, std::int64_t steps, std::int64_t log_every)
    : start_(start), steps_(steps), log_every_(log_every), interactive_(isatty(STDOUT_FILENO) == 1) {}

void Terminal::clear_bar() {
  if (bar_) show("\r\033[K");
  bar_ = false;
}

std::string Terminal::eta(std::int64_t step) const {
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
  return format_duration(elapsed / static_cast<double>(step - start_) * static_cast<double>(steps_ - step));
}

void Terminal::draw_bar(std::int64_t step) {
  const auto now = Clock::now();
  if (!interactive_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  constexpr std::int64_t kWidth = 40;
  const auto filled = static_cast<std::size_t>(kWidth * step / steps_);
  show(fmt::format("\r\033[K[{}{}] {:3}%  step {}/{}  {} left", std::string(filled, '#'), std::string(kWidth - filled, '.'),
                   100 * step / steps_, step, steps_, eta(step)));
  bar_ = true;
}

void Terminal::note(const std::string& text) {
  clear_bar();
  show(text + "\n");
}

void Terminal::step(std::int64_t step, const StepReport& report, double step_ms, double tokens_per_s) {
  const bool logged = log_every_ > 0 && (step % log_every_ == 0 || step == steps_ || step == start_ + 1);
  if (logged || !report.applied) {
    const int digits = static_cast<int>(std::to_string(steps_).size());
    note(fmt::format("step {:>{}}/{}  loss {:8.4f}  grad {:9.3g}  lr {:.2e}  {:>8.1f} ms  {:>7} tok/s  {} left{}", step, digits, steps_,
                     report.loss, report.grad_norm, report.lr, step_ms, format_count(tokens_per_s), eta(step),
                     report.applied ? "" : "  SKIPPED"));
  }
  if (step < steps_) draw_bar(step);
}

}  // namespace oxrse::train

#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace oxrse::tools {

/// What `oxrse doctor` found: printed line by line as it is found, with the problems counted.
class DoctorReport {
 public:
  template <class... Args>
  void ok(std::string_view subject, fmt::format_string<Args...> format, Args&&... args) {
    print("ok", subject, fmt::format(format, std::forward<Args>(args)...));
  }
  /// Works, but not as well as it might; or was left out.
  template <class... Args>
  void note(std::string_view subject, fmt::format_string<Args...> format, Args&&... args) {
    print("note", subject, fmt::format(format, std::forward<Args>(args)...));
  }
  /// Training would fail or give wrong results.
  template <class... Args>
  void problem(std::string_view subject, fmt::format_string<Args...> format, Args&&... args) {
    ++problems_;
    print("PROBLEM", subject, fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] int problems() const { return problems_; }

 private:
  static void print(std::string_view level, std::string_view subject, const std::string& text) {
    fmt::print("{:8} {:13} {}\n", level, subject, text);
  }
  int problems_ = 0;
};

/// This binary: version, compiler, instruction set.
void examine_build(DoctorReport& report);
/// Processor, threads, memory and the limits set on them, GPUs, disks.
void examine_machine(DoctorReport& report);
/// The libraries built in and whether matrix products are right.
void examine_libraries(DoctorReport& report);
/// How this process was launched: MPI and Slurm.
void examine_launch(DoctorReport& report);

}  // namespace oxrse::tools

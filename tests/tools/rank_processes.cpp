#include "tests/tools/rank_processes.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace oxrse::test {
namespace {

/// A file of /proc, its zeros as line ends; empty when the process is gone, which may be after the file was opened.
std::string lines_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream contents;
  contents << '\n' << stream.rdbuf();  // unlike an iterator over rdbuf(), this throws nothing when the process ends meanwhile
  std::string text = contents.str();
  for (char& c : text) c = c == '\0' ? '\n' : c;
  return text;
}

}  // namespace

pid_t process_of_rank(int rank, const std::string& mark) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (lines_of(entry.path() / "comm") != "\noxrse\n") continue;  // its guard has another name
    if (lines_of(entry.path() / "cmdline").find(mark) == std::string::npos) continue;
    if (lines_of(entry.path() / "environ").find("\nPMI_RANK=" + std::to_string(rank) + "\n") != std::string::npos) return std::stoi(name);
  }
  return 0;
}

bool comes_true(const std::function<bool()>& true_now, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!true_now()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace oxrse::test

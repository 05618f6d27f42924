#include "io/metrics/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

namespace oxrse::io {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// TensorBoard reads every file with "tfevents" in its name, in the order of the names.
std::filesystem::path new_path(const std::filesystem::path& directory) {
  static std::atomic<int> files{0};
  std::filesystem::create_directories(directory);
  char host[64] = "";
  ::gethostname(host, sizeof host - 1);
  return directory / fmt::format("events.out.tfevents.{:010d}.{}.{}.{}", static_cast<std::int64_t>(now()), host, ::getpid(), files++);
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& directory, std::int64_t step) : file_(new_path(directory)) {
  file_.append(tf_record(version_event(now())));
  file_.append(tf_record(start_event(now(), step + 1)));
}

void EventFile::write(std::int64_t step, std::initializer_list<Scalar> scalars) {
  file_.append(tf_record(scalars_event(now(), step, {scalars.begin(), scalars.size()})));
}

}  // namespace oxrse::io

#include "engine/train/machine.h"

#include <omp.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace oxrse::train {
namespace {

/// The value in bytes of a line "Key:  123 kB" of a /proc file; -1 when there is none.
std::int64_t proc_bytes(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return -1;
}

/// The number in a file; -1 when there is none ("max").
std::int64_t number_in(const std::string& file) {
  std::ifstream in(file);
  std::int64_t value = -1;
  return in >> value ? value : -1;
}

/// What the control group (version 2) of this process still allows; -1 without a limit.
std::int64_t group_available() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("0::")) continue;
    const std::string group = "/sys/fs/cgroup" + line.substr(3);
    const std::int64_t limit = number_in(group + "/memory.max"), used = number_in(group + "/memory.current");
    return limit >= 0 && used >= 0 ? std::max<std::int64_t>(limit - used, 0) : -1;
  }
  return -1;
}

}  // namespace

std::int64_t resident_bytes() { return proc_bytes("/proc/self/status", "VmRSS"); }
std::int64_t peak_resident_bytes() { return proc_bytes("/proc/self/status", "VmHWM"); }

std::int64_t available_bytes() {
  const std::int64_t machine = proc_bytes("/proc/meminfo", "MemAvailable");
  const std::int64_t group = group_available();
  if (machine < 0 || group < 0) return std::max(machine, group);
  return std::min(machine, group);
}

int cpu_threads() { return omp_get_max_threads(); }

}  // namespace oxrse::train

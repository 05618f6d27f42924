#include <omp.h>
#include <sched.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "cuda/devices.h"
#include "engine/core/build_info.h"
#include "engine/core/environment.h"
#include "engine/core/error.h"
#include "tools/doctor/report.h"

namespace oxrse::tools {
namespace {

namespace fs = std::filesystem;

/// The first line of a file; empty when there is none.
std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// The value behind "key :" in a file like /proc/cpuinfo.
std::string value_of(const fs::path& file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(std::min(colon + 2, line.size()));
  }
  return "unknown";
}

/// The control group's file of version 2, or of version 1 under `controller`; empty when there is none.
std::string control_group(const std::string& file, const std::string& controller, const std::string& old_file) {
  const fs::path root = "/sys/fs/cgroup";
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    // The group's own limit, or the nearest one above it.
    for (fs::path group = line.substr(3);; group = group.parent_path()) {
      const std::string value = first_line(root / group.relative_path() / file);
      if (!value.empty() && !value.starts_with("max")) return value;
      if (!group.has_relative_path()) break;
    }
  }
  return first_line(root / controller / old_file);
}

/// Processors' worth of time this process may use by its control group.
std::optional<double> processor_quota() {
  double quota = 0, period = 0;
  std::istringstream modern(control_group("cpu.max", "cpu", "cpu.cfs_quota_us"));
  if (!(modern >> quota) || quota <= 0) return std::nullopt;
  if (!(modern >> period)) std::istringstream(first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us")) >> period;
  if (period <= 0) return std::nullopt;
  return quota / period;
}

void examine_threads(DoctorReport& report) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : omp_get_num_procs();
  const int threads = omp_get_max_threads();
  const std::optional<double> quota = processor_quota();
  report.ok("threads", "{} for kernels at the most; {} of {} processors may be used{}", threads, cores, sysconf(_SC_NPROCESSORS_CONF),
            quota ? fmt::format(", {:.1f} processors' worth of time by the control group", *quota) : "");
  if (threads > cores) report.note("threads", "more than processors: slow; set OMP_NUM_THREADS={}", cores);
  if (threads < cores) report.note("threads", "fewer than processors: OMP_NUM_THREADS is {}", environment("OMP_NUM_THREADS"));
  if (quota && *quota < threads - 0.5) {
    report.note("threads", "more than the control group gives time for: set OMP_NUM_THREADS={:.0f}", std::max(1.0, *quota));
  }
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor == "powersave") report.note("clock", "the frequency governor is powersave: measurements will vary");
}

double gib(double kib) { return kib / 0x1p20; }

void examine_memory(DoctorReport& report) {
  const double total = gib(std::strtod(value_of("/proc/meminfo", "MemTotal").c_str(), nullptr));
  const double available = gib(std::strtod(value_of("/proc/meminfo", "MemAvailable").c_str(), nullptr));
  const std::string limit = control_group("memory.max", "memory", "memory.limit_in_bytes");
  const double limited = limit.empty() ? total : std::strtod(limit.c_str(), nullptr) / 0x1p30;
  report.ok("memory", "{:.1f} GiB, {:.1f} GiB available{}", total, available,
            limited < total ? fmt::format(", limited to {:.1f} GiB by the control group", limited) : "");
}

/// Whether files can be made and renamed in `directory`, which is made when missing and removed again.
bool writable(const fs::path& directory) {
  std::error_code error;
  const bool existed = fs::exists(directory);
  fs::create_directories(directory, error);
  const fs::path file = directory / fmt::format(".oxrse-doctor-{}", getpid());
  const bool written = static_cast<bool>(std::ofstream(file) << "x");
  fs::remove(file, error);
  if (!existed) fs::remove(directory, error);  // only when empty
  return written;
}

void examine_directory(DoctorReport& report, std::string_view subject, const fs::path& directory) {
  if (!writable(directory)) {
    report.problem(subject, "{} cannot be written to", directory.string());
    return;
  }
  std::error_code error;
  fs::path existing = fs::absolute(directory);
  while (!fs::exists(existing)) existing = existing.parent_path();
  report.ok(subject, "{} can be written to, {:.1f} GiB free", directory.string(),
            static_cast<double>(fs::space(existing, error).available) / 0x1p30);
  // Magic numbers of <linux/magic.h> and of the file systems' own sources.
  const std::map<long, std::string> networked = {{0x6969, "NFS"}, {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"}};
  struct statfs status {};
  if (statfs(existing.c_str(), &status) != 0) return;
  const auto network = networked.find(static_cast<long>(status.f_type));
  if (network != networked.end() && environment("HDF5_USE_FILE_LOCKING") != "FALSE") {
    report.note(subject, "{} may not support locks: if HDF5 reports them, set HDF5_USE_FILE_LOCKING=FALSE", network->second);
  }
}

fs::path cache_directory() {
  if (const std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) return fs::path(xdg) / "oxrse";
  return fs::path(environment("HOME")) / ".cache/oxrse";
}

void examine_gpus(DoctorReport& report) {
  if (build_info().cuda.starts_with("built in")) {
    try {
      for (const std::string& gpu : cuda::describe_gpus()) report.ok("GPU", "{}", gpu);
    } catch (const Error& error) {
      report.note("GPU", "none can be used: {}", error.what());
    }
    return;
  }
  std::error_code error;
  int count = 0;
  for (const auto& gpu : fs::directory_iterator("/proc/driver/nvidia/gpus", error)) count += gpu.is_directory() ? 1 : 0;
  if (count == 0) {
    report.note("GPU", "no NVIDIA GPU (no driver in /proc/driver/nvidia): the CPU is used");
    return;
  }
  report.note("GPU", "{} NVIDIA GPU(s) here stay unused: device cuda is not built in", count);
}

}  // namespace

void examine_machine(DoctorReport& report) {
  report.ok("processor", "{}", value_of("/proc/cpuinfo", "model name"));
  examine_threads(report);
  examine_memory(report);
  examine_gpus(report);
  examine_directory(report, "directory", ".");
  examine_directory(report, "cache", cache_directory());
}

}  // namespace oxrse::tools

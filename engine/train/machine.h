#pragma once

#include <cstdint>

namespace oxrse::train {

/// Memory of this process and machine, from /proc and the control group; -1 where the system does not say.
std::int64_t resident_bytes();       // in use by this process now
std::int64_t peak_resident_bytes();  // the most it ever used
std::int64_t available_bytes();      // what can still be allocated without swapping, within the control group's limit

/// Threads that may run at once: OMP_NUM_THREADS when set, otherwise the cores this process may use.
int cpu_threads();

}  // namespace oxrse::train

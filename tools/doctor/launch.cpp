#include <cstdlib>

#include "tools/doctor/report.h"

namespace oxrse::tools {

void examine_launch(DoctorReport& report) {
  // Set by srun, by MPICH's and by Open MPI's launcher.
  for (const char* variable : {"SLURM_NTASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || std::atol(value) <= 1) continue;
    report.problem("launch",
                   "{}={}, but this version runs as one process: {} copies of the same run would write to one directory; start one task",
                   variable, value, value);
    return;
  }
  report.ok("launch", "one process");
}

}  // namespace oxrse::tools

#pragma once

#include <cstdlib>

#include "comm/transport/mpi.h"
#include "tests/catch.h"

namespace oxrse::test {

/// Whether ranks can be started here; says so when not.
inline bool has_mpi() {
  if (comm::mpi_status().starts_with("built in") && std::system("command -v mpirun >/dev/null") == 0) return true;
  WARN("not tested: MPI is missing (Debian: mpich libmpich-dev)");
  return false;
}

}  // namespace oxrse::test

#include "comm/transport/mpi.h"
#include "engine/core/error.h"
#include "engine/train/ranks.h"
#include "tools/doctor/report.h"

namespace oxrse::tools {

void examine_launch(DoctorReport& report) {
  try {
    const comm::MpiSession session;
    if (session.size() == 1) {
      report.ok("launch", "one rank");
    } else {
      report.ok("launch", "rank {} of {}, {} of {} on this machine, computes on {} threads", session.rank(), session.size(),
                session.local_rank(), session.local_size(), train::threads_of_rank(session));
    }
  } catch (const Error& error) {
    report.problem("launch", "{}", error.what());
  }
}

}  // namespace oxrse::tools

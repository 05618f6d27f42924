#include "comm/report.h"

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "comm/communicator.h"

namespace oxrse::comm {

void run_on_all(Communicator& ranks, const std::function<void()>& work) {
  constexpr double kPatience = 2;  // seconds for the first rank, which may be computing, to print
  try {
    work();
  } catch (const std::exception& error) {
    const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    const std::string why = no_memory ? "out of memory" : error.what();
    ranks.abort(why);
    if (ranks.rank() == 0) {
      fmt::print(stderr, "error: {}\n", why);
      ranks.tell_reported();
    } else if (!ranks.wait_until_reported(kPatience)) {
      throw;
    }
    throw ReportedError(why);
  }
}

}  // namespace oxrse::comm

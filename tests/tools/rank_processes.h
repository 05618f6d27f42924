#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace oxrse::test {

/// The process of rank `rank` whose command line contains `mark`; 0 while there is none.
pid_t process_of_rank(int rank, const std::string& mark);

/// Waits until `true_now` says yes, looking every few milliseconds; false when it does not within `seconds`.
bool comes_true(const std::function<bool()>& true_now, double seconds = 60);

}  // namespace oxrse::test

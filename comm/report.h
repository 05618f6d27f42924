#pragma once

#include <functional>

#include "engine/core/error.h"

namespace oxrse::comm {

class Communicator;

/// An Error that one of the ranks has printed already: the process only has to end with it.
class ReportedError : public Error {
 public:
  using Error::Error;
};

/// Does `work` on all ranks, each of which calls this. What ends it on one ends it on all, and is printed once, by the first rank if that
/// can: then this throws a ReportedError.
void run_on_all(Communicator& ranks, const std::function<void()>& work);

}  // namespace oxrse::comm

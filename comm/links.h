#pragma once

#include <functional>
#include <string_view>

#include "comm/communicator.h"

namespace oxrse::comm {

/// Which of the ranks on its machine a rank is.
struct LocalRank {
  int rank = 0, size = 1;
};

/// Connects the devices of the ranks, which all call it: from then on they take operands in the devices' memory.
using Link = std::function<void(Communicator&, const LocalRank&)>;

/// The links between devices, by the names `run.device` has for these. The rooms that train know none: a program enters those it was built
/// with at its start.
void add_link(std::string_view device, Link link);

/// The link between devices of this name. Empty where there is none: then their memory is the host's or can be reached from there, and
/// operations take it as such.
Link find_link(std::string_view device);

}  // namespace oxrse::comm

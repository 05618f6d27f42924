#pragma once

#include "comm/communicator.h"

namespace oxrse::comm {

/// Times messages of all the sizes of a CostModel, adding up and copying, between GPUs where the ranks have them; the averages over the
/// ranks, the same on all of them. All ranks call it; it takes about a tenth of a second.
CostModel measure(Communicator& ranks);

}  // namespace oxrse::comm

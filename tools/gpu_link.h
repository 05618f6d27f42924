#pragma once

#include "comm/links.h"

namespace oxrse::tools {

/// Gives the ranks the GPUs that belong to them and connects these by NCCL; an Error in a build without it.
void connect_gpus(comm::Communicator& ranks, const comm::LocalRank& local);

/// Makes the links of this build known to `comm::find_link`. The program calls it once, at its start.
void add_links();

}  // namespace oxrse::tools

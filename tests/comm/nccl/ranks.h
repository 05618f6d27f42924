#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace oxrse::comm::testing {

/// Runs `body` on n ranks that are threads of this process, each with a GPU of stand_in::Machine. Returns what each rank's Error said, ""
/// without one. Ranks are connected in their threads, after `before` was called there.
std::vector<std::string> run_gpu_ranks(
    int n, const std::function<void(Communicator&)>& body, const Settings& settings = {},
    const std::function<void(int rank)>& before = [](int /*rank*/) {});

}  // namespace oxrse::comm::testing

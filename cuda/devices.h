#pragma once

#include <string>
#include <vector>

namespace oxrse::cuda {

/// Makes the CUDA devices of this build known to `find_device` and to the dispatcher. A program calls it once, at its start.
void add_devices();

/// The number of this process among those of its machine, by which it takes its GPU; without it the launcher's variables say. Before device
/// "cuda" is asked for.
void use_local_rank(int rank);

/// The GPUs of this machine, a line each; an Error says why there are none. Empty in a build without device "cuda".
std::vector<std::string> describe_gpus();

}  // namespace oxrse::cuda

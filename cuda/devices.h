#pragma once

namespace oxrse::cuda {

/// Makes the CUDA devices of this build known to `find_device` and to the dispatcher. A program calls it once, at its start.
void add_devices();

}  // namespace oxrse::cuda

#pragma once

namespace oxrse::cuda {

/// Has ops that run on a device run the kernel of its table (cuda/kernels/table.h). A program calls it once, before the first.
void enter_kernels();

}  // namespace oxrse::cuda

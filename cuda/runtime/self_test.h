#pragma once

#include <string>

#include "cuda/device.h"
#include "cuda/runtime/api.h"

namespace oxrse::cuda {

/// Runs attention's kernel for compute capability 9.0 on small shapes and compares with the portable one, and with itself in a second run.
/// Returns what is wrong; empty when nothing is. Ends the process when the kernel does not end. The device must be idle.
std::string test_attention_wgmma(Cuda& cuda, Api& api);

}  // namespace oxrse::cuda

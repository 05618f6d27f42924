#pragma once

#include <span>

#include "cuda/device.h"
#include "engine/core/context.h"

namespace oxrse::bench {

/// The matrix products of a training step, one after the other and nothing else.
struct StepProducts {
  double seconds = 0;  // the least each took, times how often the step needs it
  double flops = 0;
};

/// Times the products of the linear layers in a step's op list with their operands in the cache where they fit.
StepProducts measure_step_products(std::span<const OpLog::Entry> ops, DType type, const Cpu& cpu, Cuda* device = nullptr);

}  // namespace oxrse::bench

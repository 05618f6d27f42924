#pragma once

#include <cstdint>

#include "engine/core/context.h"
#include "engine/core/dtype.h"

namespace oxrse::test {

/// The device that the tests of ops run on: the CPU, unless the program (tests/cuda) enters another one. Then f64, in which the truth is
/// computed, stays on the CPU.
struct DeviceUnderTest {
  Device* device = nullptr;
  std::uint64_t* order = nullptr;  // the seed of the order in which its threads run
  Device* memory = nullptr;        // whose memory tensors must be in; null: any will do
};
DeviceUnderTest& device_under_test();

/// A context for ops that compute in `type`. On a device without CPU threads, `threads` stands for an order of its threads: results must
/// not depend on either.
Context context_for(DType type, int threads = 1);

}  // namespace oxrse::test

#include "tests/ops/device.h"

namespace oxrse::test {

DeviceUnderTest& device_under_test() {
  static DeviceUnderTest device;
  return device;
}

Context context_for(DType type, int threads) {
  Context context;
  context.cpu.threads = threads;
  const DeviceUnderTest& tested = device_under_test();
  if (tested.device == nullptr || type == DType::F64) return context;
  context.device = tested.device;
  *tested.order = static_cast<std::uint64_t>(threads) - 1;  // 0: ascending
  return context;
}

}  // namespace oxrse::test

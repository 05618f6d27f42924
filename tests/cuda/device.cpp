// The tests of tests/ops, run by this program on the emulated GPU: f32, bf16 and fp16 there, against f64 on the CPU.
#include "cuda/device.h"

#include "cuda/devices.h"
#include "engine/core/devices.h"
#include "engine/ops/activation.h"
#include "tests/catch.h"
#include "tests/ops/device.h"
#include "tests/ops/guarded.h"

namespace oxrse::test {
namespace {

const bool kEntered = [] {
  cuda::add_devices();
  auto* device = dynamic_cast<Cuda*>(find_device("cuda-emulated"));
  device_under_test() = {.device = device, .order = &device->order};
  return true;
}();

}  // namespace

TEST_CASE("the tests of ops run on the emulated GPU, f64 on the CPU") {
  REQUIRE(kEntered);
  CHECK(context_for(DType::BF16).device != nullptr);
  CHECK(context_for(DType::F64).device == nullptr);
  CHECK(find_device("cpu") == nullptr);
  CHECK(find_device("auto") == nullptr);
  CHECK_THROWS_WITH(find_device("tpu"), Catch::Matchers::Contains("run.device \"tpu\" is not in this build"));
}

TEST_CASE("kernels that do not compute in f64 say so") {
  Context context;
  context.device = find_device("cuda-emulated");
  Guarded x(DType::F64, {2, 3});
  CHECK_THROWS_WITH(ops::run(context, ops::Gelu{.y = x.view(), .x = x.view()}), Catch::Matchers::Contains("got f64: use the CPU"));
}

}  // namespace oxrse::test

// The tests of tests/ops, run by this program on a GPU: f32, bf16 and fp16 there, against f64 on the CPU. The environment variable
// OXRSE_TEST_DEVICE says on which: "cuda-emulated" (without it); "cuda"; or "stand-in", the runtime of GPUs over a stand-in of CUDA's
// libraries, in which nothing runs before somebody waits.
#include "cuda/device.h"

#include <cstdio>
#include <cstdlib>

#include "cuda/devices.h"
#include "cuda/emulation/stand_in.h"
#include "cuda/kernels/table.h"
#include "cuda/runtime/gpu.h"
#include "engine/core/devices.h"
#include "engine/ops/activation.h"
#include "tests/catch.h"
#include "tests/ops/device.h"
#include "tests/ops/guarded.h"

namespace oxrse::test {
namespace {

std::string wanted_device() {
  const char* name = std::getenv("OXRSE_TEST_DEVICE");
  return name == nullptr ? "cuda-emulated" : name;
}

Cuda& stand_in() {
  static cuda_emulated::StandIn api;
  static cuda::Gpu& gpu = []() -> cuda::Gpu& {
    api.machine[0].major = 9;  // has every kernel, and takes the portable ones, as the emulation does
    static cuda::Gpu made("stand-in", cuda_emulated::kernel_table(), api, 0, {});
    made.wgmma = false;
    return made;
  }();
  return gpu;
}

const bool kEntered = [] {
  cuda::add_devices();
  add_device("stand-in", []() -> Device& { return stand_in(); });
  try {
    auto* device = dynamic_cast<Cuda*>(find_device(wanted_device()));
    device_under_test() = {.device = device, .order = &device->order, .memory = wanted_device() == "cuda" ? device : nullptr};
  } catch (const Error& error) {
    fmt::print(stderr, "OXRSE_TEST_DEVICE={}: {}\n", wanted_device(), error.what());
    std::exit(2);
  }
  return true;
}();

}  // namespace

TEST_CASE("the tests of ops run on a GPU, f64 on the CPU") {
  REQUIRE(kEntered);
  CHECK(context_for(DType::BF16).device == find_device(wanted_device()));
  CHECK(context_for(DType::F64).device == nullptr);
  CHECK(find_device("cpu") == nullptr);
  CHECK(find_device("auto") == nullptr);
  CHECK_THROWS_WITH(find_device("tpu"), Catch::Matchers::Contains("run.device \"tpu\" is not in this build"));
}

TEST_CASE("kernels that do not compute in f64 say so") {
  Context context;
  context.device = find_device(wanted_device());
  Guarded x(DType::F64, {2, 3});
  CHECK_THROWS_WITH(ops::run(context, ops::Gelu{.y = x.view(), .x = x.view()}), Catch::Matchers::Contains("got f64: use the CPU"));
}

}  // namespace oxrse::test

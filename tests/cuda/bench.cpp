// Benchmarks on a GPU of the stand-in, whose clock is known.
#include "benchmarks/kernels.h"
#include "benchmarks/train.h"
#include "cuda/emulation/device.h"
#include "cuda/emulation/stand_in.h"
#include "cuda/kernels/table.h"
#include "cuda/runtime/gpu.h"
#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::bench;

namespace {

Report report_with_ceilings() {
  Report report;
  report.ceilings.copy_cold = report.ceilings.copy_hot = 1e10;
  for (const DType type : {DType::F32, DType::BF16}) report.ceilings.set_gemm(type, 1e11);
  return report;
}

}  // namespace

TEST_CASE("bench kernels on a GPU: rows with times, errors and what was launched") {
  cuda_emulated::StandIn api;
  api.machine[0].cache = 1 << 16;  // so that operands rotate
  cuda::Gpu gpu("cuda", cuda_emulated::kernel_table(), api, 0, {});
  Report report = report_with_ceilings();
  KernelOptions options{.types = {DType::BF16}, .filter = "^(rope|attention) .*T=64|^rope"};
  options.patience = {.seconds = 0.001, .spread = 1, .fewest = 2};
  options.device = &gpu;
  run_cases(kernel_cases(CaseSizes::few()), options, {}, report, [](const Row&) {});
  REQUIRE(report.rows.size() == 2);
  for (const Row& row : report.rows) {
    INFO(row.kernel);
    CHECK(row.time.median == Approx(1.1e-6));  // ten launches and the event before them take a microsecond each
    CHECK(row.mode == "cold");
    CHECK(row.max_err > 0);
    CHECK(row.max_err < 0.01);
    CHECK(row.launches.size() == 1);
    CHECK(row.registers() > 0);
  }
}

TEST_CASE("bench train on a GPU: whole steps first, then op by op") {
  const JsonDocument document = parse_json(R"({
    "model": {"layers": 1, "width": 32, "heads": 2, "context": 16, "vocab": 97},
    "train": {"micro_batch": 1, "global_batch": 2, "context": 16, "eval_every": 0},
    "precision": {"compute": "bf16"}})",
                                           "test");
  cuda_emulated::StandIn api;
  cuda::Gpu gpu("cuda", cuda_emulated::kernel_table(), api, 0, {});
  Report report = report_with_ceilings();
  const train::Config config = train::load_config(document);
  const TrainResult result = run_train(config, plan_train(config, &gpu), 2, {}, report, &gpu);
  CHECK(result.step.count == 2);
  CHECK(result.gemm_seconds > 0);
  CHECK(result.gemm_seconds < 1e-3);  // by the stand-in's clock
  CHECK(result.utilisation(report.ceilings) > 0);
  for (const Row& row : report.rows) CHECK(row.time.count == 2);
  CHECK(api.allocated[cuda::Api::Memory::Shared] == 0);

  api.machine[0].memory = 1000;
  CHECK_THROWS_WITH(plan_train(config, &gpu), Catch::Matchers::Contains("the plan needs") && Catch::Matchers::Contains("Stand-in"));
}

TEST_CASE("bench on the emulated GPU: no times, and all else") {
  cuda_emulated::Device device;
  Report report;
  KernelOptions options{.types = {DType::F32}, .filter = "^(gelu|linear) "};
  options.device = &device;
  run_cases(kernel_cases(CaseSizes::few()), options, {}, report, [](const Row&) {});
  REQUIRE(report.rows.size() == 1);
  CHECK_FALSE(report.rows[0].timed());
  CHECK(report.rows[0].mode == "once");
  CHECK(report.rows[0].max_err < 1e-6);
  CHECK(report.rows[0].launches.at(0).kernel == "gelu<float>");
}

TEST_CASE("bench: attention's kernel for Hopper has rows of its own where the device has it") {
  cuda_emulated::Device device;
  Report report;
  KernelOptions options{.types = {DType::BF16, DType::F32}, .filter = "^attention .*T=200"};
  options.device = &device;
  const auto run = [&] { run_cases(kernel_cases(CaseSizes::few()), options, {}, report, [](const Row&) {}); };
  run();
  REQUIRE(report.rows.size() == 3);
  CHECK(report.rows[0].launches.at(0).kernel == "attention_forward<bf16, 64>");
  CHECK(report.rows[1].launches.at(0).kernel == "attention_forward<float, 64>");
  const Row& row = report.rows[2];
  CHECK(row.variant == "wgmma");
  CHECK(row.launches.at(0).kernel == "attention_wgmma<bf16, 64>");
  CHECK(row.registers() > 0);
  CHECK(row.local() == 0);
  CHECK(row.max_err < 0.01);
  CHECK_FALSE(device.wgmma);
  report.rows.clear();
  device.has_wgmma = false;
  run();
  CHECK(report.rows.size() == 2);
}

#include "benchmarks/train.h"

#include "benchmarks/step_products.h"
#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::bench;

TEST_CASE("a step is measured op by op") {
  const JsonDocument document = parse_json(R"({
    "model": {"layers": 2, "width": 32, "heads": 2, "context": 16, "vocab": 97},
    "train": {"micro_batch": 2, "global_batch": 4, "context": 16, "eval_every": 0},
    "precision": {"compute": "bf16"}})",
                                           "test");
  Report report;
  report.ceilings.copy_cold = report.ceilings.copy_hot = 1e10;
  report.ceilings.set_gemm(DType::BF16, 1e11);
  const train::Config config = train::load_config(document);
  const train::Plan plan = plan_train(config);
  CHECK(plan.snapshot_bytes == 0);  // a benchmark saves nothing
  const TrainResult result = run_train(config, plan, 3, {.threads = 2}, report);
  CHECK(result.step.count == 3);
  CHECK(result.tokens == 64);
  CHECK(result.tokens_per_s() == Approx(64 / result.step.median));
  CHECK(result.gemm_seconds > 0);
  CHECK(result.efficiency() > 0);
  CHECK(result.planned_bytes > 0);
  double in_ops = 0, flops = 0;
  for (const Row& row : report.rows) {
    CHECK(row.mode == "step");
    CHECK(row.time.count == 3);
    in_ops += row.time.p20;
    flops += row.kernel.starts_with("linear") ? row.cost.flops : 0;
  }
  CHECK(in_ops < result.step.p80 * 1.01);
  CHECK(flops == Approx(result.gemm_flops));
  const Json json = to_json(result);
  for (const char* key : {"tokens_per_s", "step_ms", "efficiency", "products_ms", "planned_bytes"}) CHECK(json.at(key).get<double>() > 0);
}

TEST_CASE("a step that does not fit the memory is refused by its plan") {
  const train::Config config = train::load_config(parse_json(R"({"model": "llama/405b", "train": {"context": 8}})", "test"));
  CHECK_THROWS_WITH(plan_train(config), Catch::Matchers::Contains("the plan needs"));
  const train::Config without_model = train::load_config(parse_json(R"({"run": {"init": "weights"}})", "test"));
  CHECK_THROWS_WITH(plan_train(without_model), Catch::Matchers::Contains("key model"));
}

TEST_CASE("products of a step: forward ones count once, backward ones twice") {
  const auto products_of = [](std::string_view name) {
    const OpLog::Entry entry{name, "N=32 I=16 O=8", 3, {.flops = 5, .bytes = 0}, 0};
    return measure_step_products({&entry, 1}, DType::F32, {});
  };
  CHECK(products_of("linear").seconds > 0);
  CHECK(products_of("linear.backward").flops == 5);
  CHECK(products_of("gelu").seconds == 0);
}

#include "benchmarks/kernels.h"

#include <cmath>

#include "engine/ops/elementwise.h"
#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::bench;

namespace {

KernelOptions quick(std::vector<DType> types, const std::string& filter) {
  return {.types = std::move(types), .filter = filter, .cold = true, .check = true, .patience = {.seconds = 0, .spread = 1, .fewest = 2}};
}

Report report_with_ceilings() {
  Report report;
  report.ceilings.copy_cold = report.ceilings.copy_hot = 1e10;
  for (const DType type : {DType::F32, DType::BF16, DType::F16, DType::F64}) report.ceilings.set_gemm(type, 1e11);
  return report;
}

/// y = a + b of 1000 numbers, plus a mistake.
Case add_case(double mistake) {
  return {"", [mistake](Operands& t) -> std::function<void()> {
            const Tensor a = t.normal({1000}), b = t.normal({1000}), y = t.result({1000});
            const bool wrong = t.compute() != DType::F64 && mistake != 0;
            return [=, &context = t.context()] {
              ops::run(context, ops::Add{.y = y, .a = a, .b = b});
              if (wrong && !context.planning()) y.data<float>()[7] += static_cast<float>(mistake);
            };
          }};
}

}  // namespace

TEST_CASE("cases are measured and compared with f64") {
  Report report = report_with_ceilings();
  int done = 0;
  run_cases({add_case(0)}, quick({DType::F32, DType::BF16}, ""), {.threads = 2}, report, [&](const Row& /*row*/) { ++done; });
  CHECK(done == 2);
  REQUIRE(report.rows.size() == 2);
  const Row& f32 = report.rows[0];
  CHECK(f32.kernel == "add");
  CHECK(f32.mode == "cold");
  CHECK(f32.cost.bytes == 12000);
  CHECK(f32.time.median > 0);
  CHECK(f32.floor == Approx(1.2e-6));
  CHECK((f32.max_err >= 0 && f32.max_err < 1e-6));
  CHECK((report.rows[1].max_err > 1e-6 && report.rows[1].max_err < 1e-2));  // bf16 rounds
}

TEST_CASE("a wrong result shows") {
  for (const double mistake : {0.5, std::nan("")}) {
    Report report = report_with_ceilings();
    run_cases({add_case(mistake)}, quick({DType::F32}, ""), {}, report, [](const Row& /*row*/) {});
    CHECK(!(report.rows.at(0).max_err < 1e-2));
  }
}

TEST_CASE("the filter picks kernels, variants, types and shapes") {
  Report report = report_with_ceilings();
  run_cases({add_case(0)}, quick({DType::F32, DType::BF16}, "add.*bf16.*1000"), {}, report, [](const Row& /*row*/) {});
  REQUIRE(report.rows.size() == 1);
  CHECK(report.rows[0].dtype == DType::BF16);
  CHECK(count_matches({add_case(0)}, quick({DType::F32, DType::BF16}, "add.*bf16.*1000")) == 1);
  CHECK(count_matches({add_case(0)}, quick({DType::F32, DType::BF16}, "^sub")) == 0);
}

TEST_CASE("every case of the tables can be built in every type") {
  for (const auto& cases : {gemm_cases(), kernel_cases(), gemm_cases(CaseSizes::few()), kernel_cases(CaseSizes::few()),
                            gemm_cases(CaseSizes::many()), kernel_cases(CaseSizes::many())}) {
    for (const Case& c : cases) {
      for (const DType type : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
        Arena arena = Arena::planned();
        OpLog log;
        Context context{.mode = Mode::Plan, .cpu = {}, .arena = &arena, .log = nullptr};
        Operands operands(context, type, type);
        const auto call = c.build(operands);
        context.log = &log;
        call();
        REQUIRE(log.entries().size() == 1);
        CHECK(log.entries()[0].cost.bytes > 0);
        CHECK(!operands.results().empty());
      }
    }
  }
}

TEST_CASE("a small kernel of the table agrees with f64") {
  Report report = report_with_ceilings();
  run_cases(kernel_cases(), quick({DType::F32}, "^rope "), {}, report, [](const Row& /*row*/) {});
  REQUIRE(report.rows.size() == 1);
  CHECK((report.rows[0].max_err >= 0 && report.rows[0].max_err < 1e-6));
}

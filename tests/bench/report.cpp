#include "benchmarks/report.h"

#include <algorithm>
#include <cmath>

#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::bench;
using Catch::Matchers::Contains;

namespace {

Row row_of(const std::string& kernel, double median, double half_width) {
  Row row{.kernel = kernel,
          .variant = "dw",
          .dtype = DType::BF16,
          .shape = "N=4 C=8",
          .mode = "cold",
          .time = {.median = median, .p20 = median - half_width, .p80 = median + half_width, .least = median, .spread = 0, .count = 9},
          .cost = {.flops = 2e6, .bytes = 1e6}};
  row.floor = median / 2;
  row.bound = "copy";
  return row;
}

Report report_of(std::vector<Row> rows) {
  Report report{.command = "kernels", .machine = "a processor", .ceilings = {}, .rows = std::move(rows)};
  report.ceilings.copy_cold = 20e9;
  report.ceilings.copy_hot = 80e9;
  for (const DType type : {DType::F32, DType::BF16, DType::F16, DType::F64}) report.ceilings.set_gemm(type, 1e12);
  return report;
}

}  // namespace

TEST_CASE("the ceiling is the copy or the product, whichever takes longer") {
  const Ceilings c = report_of({}).ceilings;
  const Cost copy{.flops = 1e6, .bytes = 20e6}, product{.flops = 1e10, .bytes = 20e6};
  CHECK(c.floor_seconds(copy, DType::F32, true) == Approx(1e-3));
  CHECK(c.floor_seconds(copy, DType::F32, false) == Approx(0.25e-3));
  CHECK(std::string(c.binding(copy, DType::F32, true)) == "copy");
  CHECK(c.floor_seconds(product, DType::F32, true) == Approx(1e-2));
  CHECK(std::string(c.binding(product, DType::F32, true)) == "gemm");
}

TEST_CASE("a row as JSON, CSV and a line of the table") {
  const Report report = report_of({row_of("rope", 1e-3, 1e-5)});
  const Json json = to_json(report);
  CHECK(json.at("machine") == "a processor");
  CHECK(json.at("ceilings").at("gemm_bf16_gflop_per_s") == Approx(1000));
  const Json& row = json.at("rows").at(0);
  CHECK(row.at("t_us").get<double>() == Approx(1000));
  CHECK(row.at("gb_per_s").get<double>() == Approx(1));
  CHECK(row.at("gflop_per_s").get<double>() == Approx(2));
  CHECK(row.at("pct_of_ceiling").get<double>() == Approx(50));
  CHECK(row.at("max_err").is_null());
  const std::string csv = to_csv(report);
  const auto columns = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  const std::string heading = csv.substr(0, csv.find('\n'));
  // The machine's name is quoted and has no comma here.
  CHECK(columns(heading) == columns(csv.substr(heading.size() + 1)));
  CHECK_THAT(table_line(report.rows[0]), Contains("rope dw") && Contains("bf16") && Contains("1000.0"));
}

TEST_CASE("a comparison flags what is beyond the noise") {
  const Json before = to_json(report_of({row_of("same", 1e-3, 1e-5), row_of("slow", 1e-3, 1e-5), row_of("fast", 1e-3, 1e-5),
                                         row_of("noisy", 1e-3, 5e-4), row_of("gone", 1e-3, 1e-5)}));
  const Json now = to_json(report_of({row_of("same", 1.01e-3, 1e-5), row_of("slow", 1.2e-3, 1e-5), row_of("fast", 0.8e-3, 1e-5),
                                      row_of("noisy", 1.3e-3, 5e-4), row_of("added", 1e-3, 1e-5)}));
  const Comparison result = compare(before, now);
  CHECK(result.compared == 4);
  CHECK(result.slower == 1);
  CHECK(result.faster == 1);
  CHECK_THAT(result.text, Contains("1.200x slow | dw | bf16 | N=4 C=8 | cold | SLOWER"));
  CHECK_THAT(result.text, Contains("0.800x fast | dw | bf16 | N=4 C=8 | cold | faster"));
  CHECK_THAT(result.text, Contains("gone  gone") && Contains("new  added"));
  CHECK_THAT(compare(before, now, true).text, !Contains("gone  gone") && Contains("new  added"));
}

TEST_CASE("what is no result of a benchmark is refused with the key") {
  const auto check = [](const Json& value) { check_report({.source = "old.json", .value = value, .lines = {}}); };
  const Json good = to_json(report_of({row_of("rope", 1e-3, 1e-5)}));
  CHECK_NOTHROW(check(good));
  CHECK_THROWS_WITH(check(Json::array()), Contains("old.json") && Contains("that oxrse bench wrote with --json"));
  CHECK_THROWS_WITH(check({{"machine", "a"}}), Contains("\"rows\" is missing"));
  for (const char* key : {"kernel", "shape", "t_us", "p80_us"}) {
    Json bad = good;
    bad["rows"][0][key] = nullptr;
    CHECK_THROWS_WITH(check(bad), Contains(std::string("old.json: rows[0].") + key + ": expected"));
    bad["rows"][0].erase(key);
    CHECK_THROWS_WITH(check(bad), Contains(std::string("\"") + key + "\""));
  }
  Json zero = good;
  zero["rows"][0]["t_us"] = 0;
  CHECK_THROWS_WITH(check(zero), Contains("a time above 0"));
}

TEST_CASE("a comparison between machines says so") {
  Report other = report_of({});
  other.machine = "another";
  CHECK_THAT(compare(to_json(other), to_json(report_of({}))).text, Contains("the earlier run was on another"));
}

TEST_CASE("rows without times have what their kernels need, and are compared by it") {
  Row row{.kernel = "rope",
          .variant = "",
          .dtype = DType::BF16,
          .shape = "N=4",
          .mode = "once",
          .time = {},
          .cost = {.flops = 2e6, .bytes = 1e6}};
  row.max_err = 1e-3;
  row.launches = {{.kernel = "rotate<bf16>", .threads = 128, .shared = 64, .registers = 30, .local = 0},
                  {.kernel = "other<bf16>", .threads = 128, .shared = 32, .registers = 40, .local = 8}};
  Report report{.command = "kernels", .device = "cuda-emulated", .machine = "cuda-emulated", .ceilings = {}, .rows = {row}};
  const Json json = to_json(report);
  CHECK(json.at("device") == "cuda-emulated");
  CHECK(json.at("ceilings").is_null());
  const Json& first = json.at("rows").at(0);
  for (const char* key : {"t_us", "p20_us", "p80_us", "gb_per_s", "gflop_per_s", "pct_of_ceiling", "bound"}) CHECK(first.at(key).is_null());
  CHECK(first.at("regs") == 40);
  CHECK(first.at("smem") == 64);
  CHECK(first.at("local") == 8);
  CHECK(first.at("kernels").at(1).at("kernel") == "other<bf16>");
  CHECK_NOTHROW(check_report({.source = "old.json", .value = json, .lines = {}}));
  const std::string csv = to_csv(report);
  CHECK_THAT(csv, Contains("cuda-emulated,\"cuda-emulated\",rope,,bf16,N=4,once,0,,,,1000000,2000000,,,,,2.000,1.0e-03,40,64,8\n"));
  CHECK_THAT(table_line(row, true), Contains("40") && Contains(" 64 "));

  // The most of those that are known would be taken for the most of all.
  row.launches.push_back({.kernel = "new<bf16>", .threads = 128, .shared = 16});
  CHECK(row.registers() == -1);
  CHECK(row.local() == -1);
  CHECK(row.shared() == 64);

  CHECK(compare(json, to_json(report)).changed == 0);
  report.rows[0].max_err = 1.9e-3;
  CHECK(compare(json, to_json(report)).changed == 0);
  report.rows[0].max_err = std::nan("");
  const Comparison broken = compare(json, to_json(report));
  CHECK(broken.changed == 1);
  CHECK_THAT(broken.text, Contains("changed rope |  | bf16 | N=4 | once |  max_err"));
  report.rows[0].max_err = 1e-3;
  report.rows[0].launches[1].registers = 48;
  const Comparison larger = compare(json, to_json(report));
  CHECK(larger.changed == 1);
  CHECK_THAT(larger.text, Contains("regs 40 -> 48") && Contains("; 1 changed"));
}

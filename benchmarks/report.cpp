#include "benchmarks/report.h"

#include <array>
#include <cmath>
#include <map>

#include "engine/core/build_info.h"

namespace oxrse::bench {
namespace {

constexpr double kMicro = 1e6, kGiga = 1e-9;

double rate(double work, const Row& row) { return work / row.time.median * kGiga; }

std::string error_text(double max_err) { return max_err < 0 ? "-" : fmt::format("{:.1e}", max_err); }

std::string name_of(const Row& row) { return row.variant.empty() ? row.kernel : row.kernel + " " + row.variant; }

Json row_json(const Row& row) {
  return {{"kernel", row.kernel},
          {"variant", row.variant},
          {"dtype", oxrse::name_of(row.dtype)},
          {"shape", row.shape},
          {"mode", row.mode},
          {"n", row.time.count},
          {"t_us", row.time.median * kMicro},
          {"p20_us", row.time.p20 * kMicro},
          {"p80_us", row.time.p80 * kMicro},
          {"bytes", row.cost.bytes},
          {"flops", row.cost.flops},
          {"gb_per_s", rate(row.cost.bytes, row)},
          {"gflop_per_s", rate(row.cost.flops, row)},
          {"bound", row.bound},
          {"pct_of_ceiling", row.percent_of_ceiling()},
          {"intensity", row.cost.bytes > 0 ? row.cost.flops / row.cost.bytes : 0},
          {"max_err", row.max_err < 0 ? Json(nullptr) : Json(row.max_err)}};
}

constexpr std::array kKeyParts = {"kernel", "variant", "dtype", "shape", "mode"};
constexpr std::array kTimes = {"t_us", "p20_us", "p80_us"};

/// What makes two rows the same measurement.
std::string key_of(const Json& row) {
  std::string key;
  for (const char* part : kKeyParts) key += row.at(part).get<std::string>() + " | ";
  return key;
}

void check_string(const JsonNode& node) {
  node.require(node.value().is_string(), "expected a string, found {} ({})", kind_of(node.value()), shown(node.value()));
}

void check_time(const JsonNode& node) {
  const bool ok = node.value().is_number() && node.value().get<double>() > 0 && std::isfinite(node.value().get<double>());
  node.require(ok, "expected a time above 0, found {}", shown(node.value()));
}

void check_row(const JsonNode& row) {
  for (const char* part : kKeyParts) check_string(row.at(part));
  for (const char* time : kTimes) check_time(row.at(time));
}

}  // namespace

std::string table_heading() {
  return fmt::format("{:<24} {:<5} {:<36} {:<4} {:>10} {:>10} {:>10} {:>8} {:>8} {:>5} {:<4} {:>8}\n", "kernel", "dtype", "shape", "mode",
                     "us", "p20", "p80", "GB/s", "GFLOP/s", "%", "of", "max_err");
}

std::string table_line(const Row& row) {
  return fmt::format("{:<24} {:<5} {:<36} {:<4} {:>10.1f} {:>10.1f} {:>10.1f} {:>8.1f} {:>8.1f} {:>5.0f} {:<4} {:>8}\n", name_of(row),
                     oxrse::name_of(row.dtype), row.shape, row.mode, row.time.median * kMicro, row.time.p20 * kMicro, row.time.p80 * kMicro,
                     rate(row.cost.bytes, row), rate(row.cost.flops, row), row.percent_of_ceiling(), row.bound, error_text(row.max_err));
}

Json to_json(const Report& report) {
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(row_json(row));
  return {{"command", report.command},
          {"commit", build_info().commit},
          {"compiler", build_info().compiler},
          {"march", build_info().march},
          {"device", "cpu"},
          {"machine", report.machine},
          {"ceilings", report.ceilings.json()},
          {"summary", report.summary},
          {"rows", rows}};
}

std::string to_csv(const Report& report) {
  std::string text =
      "git_sha,device,machine,kernel,variant,dtype,shape,mode,n,t_us,p20,p80,bytes,flops,GB/s,GFLOP/s,bound,pct_of_ceiling,intensity,"
      "max_err\n";
  for (const Row& row : report.rows) {
    text += fmt::format("{},cpu,\"{}\",{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.0f},{:.0f},{:.3f},{:.3f},{},{:.1f},{:.3f},{}\n",
                        build_info().commit, report.machine, row.kernel, row.variant, oxrse::name_of(row.dtype), row.shape, row.mode,
                        row.time.count, row.time.median * kMicro, row.time.p20 * kMicro, row.time.p80 * kMicro, row.cost.bytes,
                        row.cost.flops, rate(row.cost.bytes, row), rate(row.cost.flops, row), row.bound, row.percent_of_ceiling(),
                        row.cost.bytes > 0 ? row.cost.flops / row.cost.bytes : 0, row.max_err < 0 ? "" : error_text(row.max_err));
  }
  return text;
}

void check_report(const JsonDocument& document) {
  try {
    const JsonNode root(document);
    check_string(root.at("machine"));
    const JsonNode rows = root.at("rows");
    rows.require(rows.value().is_array(), "expected a list, found {} ({})", kind_of(rows.value()), shown(rows.value()));
    for (std::size_t i = 0; i < rows.value().size(); ++i) check_row(rows.at(i));
  } catch (const Error& error) {
    fail("{}; expected a file that oxrse bench wrote with --json", error.what());
  }
}

Comparison compare(const Json& earlier, const Json& now) {
  constexpr double kLeast = 0.02;
  std::map<std::string, Json> before;
  for (const Json& row : earlier.at("rows")) before[key_of(row)] = row;
  Comparison result;
  if (earlier.at("machine") != now.at("machine")) {
    result.text = fmt::format("note: the earlier run was on {}\n", earlier.at("machine").get<std::string>());
  }
  for (const Json& row : now.at("rows")) {
    const auto found = before.find(key_of(row));
    if (found == before.end()) {
      result.text += fmt::format("      new  {}\n", key_of(row));
      continue;
    }
    const auto number = [](const Json& of, const char* key) { return of.at(key).get<double>(); };
    const Json& old = found->second;
    const double ratio = number(row, "t_us") / number(old, "t_us");
    const bool slower = number(row, "p20_us") > number(old, "p80_us") && ratio > 1 + kLeast;
    const bool faster = number(row, "p80_us") < number(old, "p20_us") && ratio < 1 - kLeast;
    result.text += fmt::format("{:>8.3f}x {}{}\n", ratio, key_of(row), slower ? "SLOWER" : faster ? "faster" : "");
    result.slower += slower ? 1 : 0;
    result.faster += faster ? 1 : 0;
    ++result.compared;
    before.erase(found);
  }
  for (const auto& [key, row] : before) result.text += fmt::format("     gone  {}\n", key);
  result.text += fmt::format("{} compared (time now / earlier): {} slower, {} faster beyond the noise\n", result.compared, result.slower,
                             result.faster);
  return result;
}

}  // namespace oxrse::bench

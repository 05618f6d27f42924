#include "benchmarks/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "engine/core/build_info.h"

namespace oxrse::bench {
namespace {

constexpr double kMicro = 1e6, kGiga = 1e-9;

double rate(double work, const Row& row) { return work / row.time.median * kGiga; }

/// A number that only rows with times have.
Json if_timed(const Row& row, double value) { return row.timed() ? Json(value) : Json(nullptr); }
std::string text_if_timed(const Row& row, const char* format, double value) {
  return row.timed() ? fmt::format(fmt::runtime(format), value) : "";
}
/// A number that is known from 0 up.
Json if_known(std::int64_t value) { return value < 0 ? Json(nullptr) : Json(value); }
std::string text_if_known(std::int64_t value) { return value < 0 ? "" : std::to_string(value); }

Json launches_json(const Row& row) {
  Json launches = Json::array();
  for (const LaunchRecord& l : row.launches) {
    launches.push_back(
        {{"kernel", l.kernel}, {"threads", l.threads}, {"smem", l.shared}, {"regs", if_known(l.registers)}, {"local", if_known(l.local)}});
  }
  return launches;
}

/// The largest of a member over the launches; -1 without any, or where one of them is not known.
template <class Member>
std::int64_t largest(const std::vector<LaunchRecord>& launches, Member LaunchRecord::*member) {
  std::int64_t result = -1;
  for (const LaunchRecord& l : launches) {
    const auto value = static_cast<std::int64_t>(l.*member);
    if (value < 0) return -1;
    result = std::max(result, value);
  }
  return result;
}

std::string error_text(double max_err) { return max_err < 0 ? "-" : fmt::format("{:.1e}", max_err); }

std::string name_of(const Row& row) { return row.variant.empty() ? row.kernel : row.kernel + " " + row.variant; }

/// Of the first column; GPUs have kernels with long names.
int name_width(bool kernels) { return kernels ? 38 : 24; }

Json row_json(const Row& row) {
  return {{"kernel", row.kernel},
          {"variant", row.variant},
          {"dtype", oxrse::name_of(row.dtype)},
          {"shape", row.shape},
          {"mode", row.mode},
          {"n", row.time.count},
          {"t_us", if_timed(row, row.time.median * kMicro)},
          {"p20_us", if_timed(row, row.time.p20 * kMicro)},
          {"p80_us", if_timed(row, row.time.p80 * kMicro)},
          {"bytes", row.cost.bytes},
          {"flops", row.cost.flops},
          {"gb_per_s", if_timed(row, rate(row.cost.bytes, row))},
          {"gflop_per_s", if_timed(row, rate(row.cost.flops, row))},
          {"bound", row.timed() ? Json(row.bound) : Json(nullptr)},
          {"pct_of_ceiling", if_timed(row, row.percent_of_ceiling())},
          {"intensity", row.cost.bytes > 0 ? row.cost.flops / row.cost.bytes : 0},
          {"max_err", row.max_err < 0 ? Json(nullptr) : Json(row.max_err)},
          {"regs", if_known(row.registers())},
          {"smem", if_known(row.shared())},
          {"local", if_known(row.local())},
          {"kernels", launches_json(row)}};
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

bool without_times(const Json& row) {
  return std::all_of(kTimes.begin(), kTimes.end(), [&](const char* time) { return row.at(time).is_null(); });
}

void check_row(const JsonNode& row) {
  for (const char* part : kKeyParts) check_string(row.at(part));
  for (const char* time : kTimes) {
    const JsonNode node = row.at(time);
    if (!without_times(row.value())) check_time(node);
  }
}

/// How a row without times differs from an earlier one; empty when it does not.
std::string differences(const Json& old, const Json& now) {
  std::string text;
  for (const char* key : {"bytes", "flops", "regs", "smem", "local"}) {
    const Json before = old.value(key, Json()), after = now.value(key, Json());
    if (before != after) text += fmt::format(" {} {} -> {}", key, shown(before), shown(after));
  }
  const Json before = old.value("max_err", Json()), after = now.value("max_err", Json());
  // A NaN is null in JSON.
  const bool grew = before.is_number() && !(after.is_number() && after.get<double>() <= 2 * before.get<double>());
  if (grew) text += fmt::format(" max_err {} -> {}", shown(before), shown(after));
  return text;
}

/// One line about a row that both have.
std::string compare_row(const Json& old, const Json& row, Comparison& result) {
  constexpr double kLeast = 0.02;
  ++result.compared;
  if (without_times(row) || without_times(old)) {
    const std::string text = differences(old, row);
    result.changed += text.empty() ? 0 : 1;
    return fmt::format("{:>9} {}{}\n", text.empty() ? "same" : "changed", key_of(row), text);
  }
  const auto number = [](const Json& of, const char* key) { return of.at(key).get<double>(); };
  const double ratio = number(row, "t_us") / number(old, "t_us");
  const bool slower = number(row, "p20_us") > number(old, "p80_us") && ratio > 1 + kLeast;
  const bool faster = number(row, "p80_us") < number(old, "p20_us") && ratio < 1 - kLeast;
  result.slower += slower ? 1 : 0;
  result.faster += faster ? 1 : 0;
  return fmt::format("{:>8.3f}x {}{}\n", ratio, key_of(row), slower ? "SLOWER" : faster ? "faster" : "");
}

}  // namespace

std::int64_t Row::registers() const { return largest(launches, &LaunchRecord::registers); }
std::int64_t Row::shared() const { return largest(launches, &LaunchRecord::shared); }
std::int64_t Row::local() const { return largest(launches, &LaunchRecord::local); }

std::string table_heading(bool kernels) {
  return fmt::format("{:<{}} {:<5} {:<36} {:<4} {:>10} {:>10} {:>10} {:>8} {:>8} {:>5} {:<4} {:>8}{}\n", "kernel", name_width(kernels),
                     "dtype", "shape", "mode", "us", "p20", "p80", "GB/s", "GFLOP/s", "%", "of", "max_err",
                     kernels ? fmt::format(" {:>10} {:>10} {:>5} {:>6} {:>5}", "MB", "MFLOP", "regs", "smem", "local") : "");
}

std::string table_line(const Row& row, bool kernels) {
  const auto timed = [&](const char* format, double value) { return text_if_timed(row, format, value); };
  std::string text = fmt::format(
      "{:<{}} {:<5} {:<36} {:<4} {:>10} {:>10} {:>10} {:>8} {:>8} {:>5} {:<4} {:>8}", name_of(row), name_width(kernels),
      oxrse::name_of(row.dtype), row.shape, row.mode, timed("{:.1f}", row.time.median * kMicro), timed("{:.1f}", row.time.p20 * kMicro),
      timed("{:.1f}", row.time.p80 * kMicro), timed("{:.1f}", rate(row.cost.bytes, row)), timed("{:.1f}", rate(row.cost.flops, row)),
      timed("{:.0f}", row.percent_of_ceiling()), row.bound, error_text(row.max_err));
  if (kernels) {
    text += fmt::format(" {:>10.3f} {:>10.3f} {:>5} {:>6} {:>5}", row.cost.bytes * 1e-6, row.cost.flops * 1e-6,
                        text_if_known(row.registers()), text_if_known(row.shared()), text_if_known(row.local()));
  }
  return text + "\n";
}

Json to_json(const Report& report) {
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(row_json(row));
  return {{"command", report.command},
          {"commit", build_info().commit},
          {"compiler", build_info().compiler},
          {"march", build_info().march},
          {"device", report.device},
          {"machine", report.machine},
          {"ceilings", report.ceilings.copy_cold > 0 ? report.ceilings.json() : Json(nullptr)},
          {"summary", report.summary},
          {"rows", rows}};
}

std::string to_csv(const Report& report) {
  std::string text =
      "git_sha,device,machine,kernel,variant,dtype,shape,mode,n,t_us,p20,p80,bytes,flops,GB/s,GFLOP/s,bound,pct_of_ceiling,intensity,"
      "max_err,regs,smem,local\n";
  for (const Row& row : report.rows) {
    const auto timed = [&](const char* format, double value) { return text_if_timed(row, format, value); };
    text += fmt::format("{},{},\"{}\",{},{},{},{},{},{},{},{},{},{:.0f},{:.0f},{},{},{},{},{:.3f},{},{},{},{}\n", build_info().commit,
                        report.device, report.machine, row.kernel, row.variant, oxrse::name_of(row.dtype), row.shape, row.mode,
                        row.time.count, timed("{:.3f}", row.time.median * kMicro), timed("{:.3f}", row.time.p20 * kMicro),
                        timed("{:.3f}", row.time.p80 * kMicro), row.cost.bytes, row.cost.flops, timed("{:.3f}", rate(row.cost.bytes, row)),
                        timed("{:.3f}", rate(row.cost.flops, row)), row.bound, timed("{:.1f}", row.percent_of_ceiling()),
                        row.cost.bytes > 0 ? row.cost.flops / row.cost.bytes : 0, row.max_err < 0 ? "" : error_text(row.max_err),
                        text_if_known(row.registers()), text_if_known(row.shared()), text_if_known(row.local()));
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

Comparison compare(const Json& earlier, const Json& now, bool part) {
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
    result.text += compare_row(found->second, row, result);
    before.erase(found);
  }
  if (part) before.clear();
  for (const auto& [key, row] : before) result.text += fmt::format("     gone  {}\n", key);
  result.text += fmt::format("{} compared (time now / earlier): {} slower, {} faster beyond the noise{}\n", result.compared, result.slower,
                             result.faster, result.changed > 0 ? fmt::format("; {} changed", result.changed) : "");
  return result;
}

}  // namespace oxrse::bench

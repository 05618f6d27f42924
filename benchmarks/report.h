#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/ceilings.h"
#include "benchmarks/samples.h"
#include "cuda/device.h"

namespace oxrse::bench {

/// One measured kernel at one shape.
struct Row {
  std::string kernel;   // the op's name
  std::string variant;  // which part of it: "dx", "dw"; usually empty
  DType dtype = DType::F32;
  std::string shape;
  std::string mode;  // "cold": operands come from memory; "hot": they fit the cache; "step": inside a training step; "once": not timed
  Samples time;      // of no timings on devices without a clock
  Cost cost;
  double max_err = -1;                      // largest difference from f64, relative to the largest value there; below 0: not measured
  double floor = 0;                         // seconds the ceiling allows
  std::string_view bound = {};              // which ceiling: "gemm" or "copy"
  std::vector<LaunchRecord> launches = {};  // of kernels on a GPU or its emulation, for one call of the op

  [[nodiscard]] bool timed() const { return time.count > 0; }
  [[nodiscard]] double percent_of_ceiling() const { return 100 * floor / time.median; }
  /// The most that any of the kernels needs: registers of a thread, bytes of shared memory of a block, bytes of local memory of a thread;
  /// -1 where that is not known.
  [[nodiscard]] std::int64_t registers() const;
  [[nodiscard]] std::int64_t shared() const;
  [[nodiscard]] std::int64_t local() const;
};

/// Everything one run of a benchmark found.
struct Report {
  std::string command;         // "kernels", "gemm", "train"
  std::string device = "cpu";  // as in run.device
  std::string machine;
  Ceilings ceilings;
  std::vector<Row> rows;
  Json summary = Json::object();  // what a benchmark says beyond its rows
};

/// The rows as an aligned table: a heading, and one line for a row. `kernels`: with bytes, FLOPs and what the kernels need of a GPU.
std::string table_heading(bool kernels = false);
std::string table_line(const Row& row, bool kernels = false);

Json to_json(const Report& report);
std::string to_csv(const Report& report);

/// An Error with file and line where a document is not what `to_json` gives, as far as `compare` reads it.
void check_report(const JsonDocument& document);

/// Compares with what `to_json` gave earlier. A row is slower (or faster) when even the better fifth of its timings is worse (better) than
/// the worse fifth of the earlier ones, and its median is off by more than 2%. Rows without times are compared by what their kernels need
/// and by their errors. Rows only one of the two has are listed; when `part` of the rows was measured now, only new ones.
struct Comparison {
  std::string text;
  int slower = 0, faster = 0, compared = 0;
  int changed = 0;  // needs other resources, or its error is more than twice what it was
};
Comparison compare(const Json& earlier, const Json& now, bool part = false);

}  // namespace oxrse::bench

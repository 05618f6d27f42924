#pragma once

#include <cstdint>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "benchmarks/cases.h"
#include "benchmarks/report.h"

namespace oxrse::bench {

struct KernelOptions {
  std::vector<DType> types = {DType::BF16, DType::F32};
  std::string filter;  // ECMAScript expression searched for in "kernel variant dtype shape"; empty: everything
  bool cold = true;    // rotate over copies of the operands that together exceed the cache
  bool check = true;   // also run in f64 and compare
  Patience patience = {};
  Cuda* device = nullptr;  // where; without one on the CPU
};

/// How many cases, each in every type, the filter lets through. Measures nothing.
std::int64_t count_matches(const std::vector<Case>& cases, const KernelOptions& options);

/// Measures the cases; `row` is called with each as it is done. The report must have its ceilings, unless the device has no clock: then
/// rows have no times.
void run_cases(const std::vector<Case>& cases, const KernelOptions& options, const Cpu& cpu, Report& report,
               const std::function<void(const Row&)>& row);

}  // namespace oxrse::bench

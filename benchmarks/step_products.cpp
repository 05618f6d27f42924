#include "benchmarks/step_products.h"

#include <cstdio>
#include <string>

#include "benchmarks/samples.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/linear.h"

namespace oxrse::bench {
namespace {

struct Sizes {
  std::int64_t n = 0, i = 0, o = 0;
};

Sizes sizes_of(const OpLog::Entry& entry) {
  long long n = 0, i = 0, o = 0;
  require(std::sscanf(entry.shape.c_str(), "N=%lld I=%lld O=%lld", &n, &i, &o) == 3, "{}: unexpected shape \"{}\"", entry.name,
          entry.shape);
  return {n, i, o};
}

/// One call of the op's products: y = x w^T, or dx = dy w and dw = dy^T x.
double seconds_of(const OpLog::Entry& entry, DType type, const Cpu& cpu, Cuda* device) {
  const auto [n, i, o] = sizes_of(entry);
  const std::int64_t weight = o * i;
  Arena arena =
      Arena::allocated((n * i + n * o + weight) * size_of(type) + weight * size_of(accumulator_of(type)) + 4 * Arena::kAlignment, device);
  Context context{.mode = Mode::Run, .cpu = cpu, .arena = &arena, .log = nullptr, .device = device};
  const auto matrix = [&](DType of, std::int64_t rows, std::int64_t columns) {
    const Tensor t = arena.make(of, {rows, columns}, Memory::Workspace);
    ops::run(context, ops::FillNormal{.y = t, .mean = 0, .stddev = 1, .random = RandomStream(1, static_cast<std::uint64_t>(rows))});
    return t;
  };
  const Tensor x = matrix(type, n, i), y = matrix(type, n, o), w = matrix(type, o, i), dw = matrix(accumulator_of(type), o, i);
  const Patience patience{.seconds = 0.3, .spread = 0.005, .fewest = 4};
  const auto least = [&](const auto& op) {
    const auto call = [&] { ops::run(context, op); };
    if (device == nullptr) return measure(patience, [&](std::int64_t /*i*/) { call(); }).least;
    call();  // the library's algorithms are measured here
    context.wait();
    return measure_seconds(patience, [&](std::int64_t /*i*/) { return device->seconds_of(call); }).least;
  };
  if (entry.name == "linear") return least(ops::Linear{.y = y, .x = x, .w = w});
  return least(ops::Linear::Backward{.dx = x, .dy = y, .x = {}, .w = w}) + least(ops::Linear::Backward{.dw = dw, .dy = y, .x = x, .w = {}});
}

}  // namespace

StepProducts measure_step_products(std::span<const OpLog::Entry> ops, DType type, const Cpu& cpu, Cuda* device) {
  StepProducts result;
  for (const OpLog::Entry& entry : ops) {
    if (!entry.name.starts_with("linear")) continue;
    result.seconds += static_cast<double>(entry.calls) * seconds_of(entry, type, cpu, device);
    result.flops += entry.cost.flops;
  }
  return result;
}

}  // namespace oxrse::bench

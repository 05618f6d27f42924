#include "benchmarks/ceilings.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "benchmarks/samples.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/elementwise.h"

namespace oxrse::bench {
namespace {

constexpr std::array kTypes = {DType::F32, DType::BF16, DType::F16, DType::F64};

/// Bytes read and written per second by copies of `bytes` bytes.
double copy_rate(const Cpu& cpu, std::int64_t bytes) {
  Arena arena = Arena::allocated(2 * bytes);
  const Tensor from = arena.make(DType::F32, {bytes / 4}, Memory::Workspace), to = arena.make(DType::F32, {bytes / 4}, Memory::Workspace);
  std::memset(from.address(), 1, static_cast<std::size_t>(bytes));
  std::memset(to.address(), 1, static_cast<std::size_t>(bytes));
  const std::int64_t part = cpu::divide_up(bytes, cpu.threads);
  const Samples samples = measure({.seconds = 0.4}, [&](std::int64_t /*i*/) {
    cpu::parallel_tiles(cpu, bytes, part, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.address() + begin, from.address() + begin, static_cast<std::size_t>(end - begin));
    });
  });
  return 2 * static_cast<double>(bytes) / samples.least;
}

double gemm_rate(const Cpu& cpu, DType type) {
  const std::int64_t n = size_of(type) == 4 || type == DType::BF16 ? 2048 : 1024;
  Arena arena = Arena::allocated(4 * n * n * 8);
  Context context{.mode = Mode::Run, .cpu = cpu, .arena = &arena, .log = nullptr};
  const auto matrix = [&](DType of, const char* name) {
    const Tensor t = arena.make(of, {n, n}, Memory::Workspace);
    ops::run(context, ops::FillNormal{.y = t, .mean = 0, .stddev = 1, .random = RandomStream(1, stream_of(name))});
    return t;
  };
  const Tensor a = matrix(type, "a"), b = matrix(type, "b"), c = matrix(accumulator_of(type), "c");
  const Samples samples = measure({.seconds = 0.6}, [&](std::int64_t /*i*/) { cpu::gemm(cpu, {.c = c, .a = a, .b = b}); });
  return 2 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / samples.least;
}

/// The same on a GPU, by its own copies.
double copy_rate(Cuda& device, std::int64_t bytes) {
  Arena memory = Arena::allocated(2 * bytes, &device);
  const Tensor from = memory.make(DType::F32, {bytes / 4}, Memory::Workspace), to = memory.make(DType::F32, {bytes / 4}, Memory::Workspace);
  std::memset(from.address(), 1, static_cast<std::size_t>(bytes));
  const Samples samples = measure_seconds({.seconds = 0.4}, [&](std::int64_t /*i*/) {
    return device.seconds_of([&] { device.copy(to.address(), from.address(), static_cast<std::size_t>(bytes)); });
  });
  return 2 * static_cast<double>(bytes) / samples.least;
}

double gemm_rate(Cuda& device, DType type) {
  const std::int64_t n = type == DType::F32 ? 4096 : 8192;
  Arena arena = Arena::allocated(4 * n * n * 4, &device);
  Context context{.mode = Mode::Run, .cpu = {}, .arena = &arena, .log = nullptr, .device = &device};
  const auto matrix = [&](const char* name) {
    const Tensor t = arena.make(type, {n, n}, Memory::Workspace);
    ops::run(context, ops::FillNormal{.y = t, .mean = 0, .stddev = 1, .random = RandomStream(1, stream_of(name))});
    return t;
  };
  const Product product{{.c = matrix("c"), .a = matrix("a"), .b = matrix("b"), .transpose_b = true}};
  device.multiply(product);  // measures algorithms
  context.wait();
  const Samples samples =
      measure_seconds({.seconds = 0.6}, [&](std::int64_t /*i*/) { return device.seconds_of([&] { device.multiply(product); }); });
  return 2 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / samples.least;
}

}  // namespace

double Ceilings::floor_seconds(const Cost& cost, DType type, bool cold) const {
  return std::max(cost.flops / gemm(type), cost.bytes / (cold ? copy_cold : copy_hot));
}

const char* Ceilings::binding(const Cost& cost, DType type, bool cold) const {
  return cost.flops / gemm(type) > cost.bytes / (cold ? copy_cold : copy_hot) ? "gemm" : "copy";
}

Json Ceilings::json() const {
  Json result{{"copy_cold_gb_per_s", copy_cold / 1e9}, {"copy_hot_gb_per_s", copy_hot / 1e9}};
  for (const DType type : kTypes) result[fmt::format("gemm_{}_gflop_per_s", name_of(type))] = gemm(type) / 1e9;
  return result;
}

std::string Ceilings::describe() const {
  std::string text = fmt::format("copy {:.1f} GB/s from memory, {:.1f} GB/s in the cache; products", copy_cold / 1e9, copy_hot / 1e9);
  for (const DType type : kTypes) text += fmt::format("{} {} {:.0f}", type == kTypes[0] ? "" : ",", name_of(type), gemm(type) / 1e9);
  return text + " GFLOP/s";
}

Ceilings measure_ceilings(const Cpu& cpu) {
  Ceilings ceilings;
  const std::int64_t cache = last_level_cache_bytes();
  ceilings.copy_cold = copy_rate(cpu, std::max<std::int64_t>(4 * cache, std::int64_t{128} << 20));
  ceilings.copy_hot = copy_rate(cpu, std::clamp<std::int64_t>(cache / 8, 1 << 20, 8 << 20));
  for (const DType type : kTypes) ceilings.set_gemm(type, gemm_rate(cpu, type));
  return ceilings;
}

Ceilings measure_ceilings(Cuda& device) {
  Ceilings ceilings;
  const std::int64_t cache = device.cache_bytes();
  ceilings.copy_cold = copy_rate(device, std::max<std::int64_t>(8 * cache, std::int64_t{512} << 20));
  ceilings.copy_hot = copy_rate(device, std::max<std::int64_t>(cache / 8, 1 << 20));
  for (const DType type : {DType::F32, DType::BF16, DType::F16}) ceilings.set_gemm(type, gemm_rate(device, type));
  return ceilings;
}

std::int64_t last_level_cache_bytes() {
  // Not sysconf: in a virtual machine it may tell the size of all caches of the host.
  std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::int64_t kib = 0;
  return in >> kib && kib > 0 ? kib << 10U : std::int64_t{32} << 20;
}

std::string machine_name(const Cpu& cpu) {
  std::ifstream in("/proc/cpuinfo");
  std::string name = "unknown processor";
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    name = line.substr(line.find(": ") + 2);
    break;
  }
  return fmt::format("{}, {} thread{}", name, cpu.threads, cpu.threads == 1 ? "" : "s");
}

}  // namespace oxrse::bench

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/arena.h"

namespace oxrse {

/// Plan: only check and cost. Run: enqueue kernels. Check: run, replay on the CPU and compare.
enum class Mode : std::uint8_t { Plan, Run, Check };

/// Floating-point operations (a multiply and an add are two) and bytes read and written at least once.
struct Cost {
  double flops = 0;
  double bytes = 0;

  Cost& operator+=(const Cost& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
};

/// The ops of a step in order of first use; equal ops (same name and shape) are counted in one line.
class OpLog {
 public:
  struct Entry {
    std::string_view name;
    std::string shape;
    std::int64_t calls = 0;
    Cost cost;           // of all calls together
    double seconds = 0;  // that kernels took, all calls together; 0 in a plan
  };

  /// Counts a call; the entry stays in place until the next one.
  Entry& add(std::string_view name, const std::string& shape, const Cost& cost);
  /// Ops added from here on count `times` times: one run of a loop's body stands for all of them. 1 ends it.
  void repeat(std::int64_t times) { times_ = times; }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] Cost total() const;

 private:
  std::vector<Entry> entries_;
  std::int64_t times_ = 1;
};

/// The CPU as a place to run kernels: `launch(Cpu&, op)` is in engine/cpu.
struct Cpu {
  int threads = 1;
};

/// Where and how ops run.
struct Context {
  Mode mode = Mode::Run;
  Cpu cpu;
  Arena* arena = nullptr;
  OpLog* log = nullptr;      // when present, every op is recorded and timed
  Device* device = nullptr;  // when present, ops run there and not on the CPU

  [[nodiscard]] bool planning() const { return mode == Mode::Plan; }
  /// Returns when what ops have written can be read. On the CPU that is at once.
  void wait() const {
    if (device != nullptr) device->wait();
  }
  /// Writes numbers of the host to a contiguous tensor of as many bytes, in order with ops.
  void write(const Tensor& to, const void* from) const;
};

}  // namespace oxrse

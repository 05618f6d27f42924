#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>

#include "engine/core/error.h"

namespace oxrse {

/// What a device could not do: names the call. The op that asked for it puts itself and its shapes in front.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A device besides the CPU, as the rooms that train see it: ops run there when a context names it, and this is what else they ask of it.
///
/// Ops return before they are done and are done one after the other. Memory of the device is also the host's, at the same address, but only
/// while nothing runs: after `wait`. What the host writes then is what later ops read.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Memory for tensors, aligned to 256 bytes; an Error says how much was asked for.
  virtual std::byte* allocate(std::int64_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;
  /// Bytes that can still be allocated; below 0 where they are the host's.
  [[nodiscard]] virtual std::int64_t available_bytes() = 0;

  /// The widest heads that its attention takes.
  [[nodiscard]] virtual std::int64_t widest_heads() const { return std::numeric_limits<std::int64_t>::max(); }

  /// Copies to memory of the device, in order with ops. `from` may be used again on return.
  virtual void write(std::byte* to, std::span<const std::byte> from) = 0;
  /// Returns when all ops and copies are done. An Error is that of an op before.
  virtual void wait() = 0;

  /// Runs `step`, which only runs ops and writes: a device may collect them and start them together.
  virtual void run_step(const std::function<void()>& step) { step(); }

  /// What `measure` says on the first rank, on all ranks.
  using Agree = std::function<std::string(const std::function<std::string()>& measure)>;
  /// Ranks, which run the same ops from here on, choose alike between kernels of other bits: as measured by the first. Without a function
  /// each chooses for itself again.
  virtual void agree(const Agree& /*agree*/) {}

  /// The hardware, as reports name it.
  [[nodiscard]] virtual std::string description() const = 0;
};

}  // namespace oxrse

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "comm/execution.h"

namespace oxrse::comm {

/// Carries out programs on the memory of a rank's GPU, over links between GPUs. All calls come from one thread at a time, from any.
class DeviceTransport {
 public:
  DeviceTransport() = default;
  DeviceTransport(const DeviceTransport&) = delete;
  DeviceTransport& operator=(const DeviceTransport&) = delete;
  virtual ~DeviceTransport() = default;

  /// Executions are made in the order of the operations, the same on all ranks. What they read must have been written when they are made,
  /// and their results are there for everybody when they have ended. `host` tells the ranks of each other.
  virtual std::unique_ptr<Execution> execute(const Program& program, Operands operands, const Tag& tag, Transport& host) = 0;
  /// Ends what is going on without waiting for other ranks; nothing can be executed afterwards.
  virtual void abort() noexcept = 0;

  /// Memory of the GPU, aligned to 256 bytes.
  virtual std::byte* allocate(std::int64_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;
  /// Copies between host and GPU, whichever the addresses are of; has ended when it returns.
  virtual void copy(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
};

}  // namespace oxrse::comm

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/gemm.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace oxrse {

struct KernelTable;

/// A matrix product as the library of a GPU makes it, of f32, bf16 or fp16: no residual with Write::Add, but GELU.
struct Product : ops::Gemm {
  Tensor gelu = {};         // (M, N) of C's type, optional: also GELU(C); not with a residual or Write::Add
  ConstTensor before = {};  // (M, N) of C's type, optional: C is multiplied with GELU'(before); not with any of the others

  [[nodiscard]] bool has_activation() const { return gelu.present() || before.present(); }
};

/// A kernel of an op as it was launched.
struct LaunchRecord {
  std::string kernel;  // "rmsnorm_forward<bf16>", as in cuda/resources.txt
  int threads = 0;     // of a block
  std::size_t shared = 0;
  int registers = -1;  // of a thread; -1: not known
  int local = -1;      // bytes of memory a thread has of its own: arrays and registers that were spilled
};

/// Where kernels are launched.
struct LaunchTarget {
  CUstream_st* stream = nullptr;  // on a GPU: where kernels go
  std::uint64_t order = 0;        // emulated: seed of the order in which blocks and threads run; 0: ascending

  std::vector<LaunchRecord>* launches = nullptr;  // when present, every launch is recorded
};

/// Attention's tiles of wider heads would not fit into a block's memory.
inline constexpr std::int64_t kWidestHeads = 256;

/// A GPU, or its emulation on the CPU: where kernels are launched, and memory for partial results of one launch.
struct Cuda : Device, LaunchTarget {
  Cuda(std::string_view device_name, const KernelTable& table) : name(device_name), kernels(&table) {}

  std::string_view name;       // as in run.device
  const KernelTable* kernels;  // cuda/kernels/table.h
  bool has_wgmma = false;      // whether attention's forward pass has its kernel for compute capability 9.0 here
  bool wgmma = false;          // whether it takes that where it is for the op

  [[nodiscard]] std::int64_t widest_heads() const override { return kWidestHeads; }

  /// Memory for partial results of one launch, aligned to 256 bytes. What an earlier call returned is no longer valid.
  virtual void* scratch(std::size_t bytes) = 0;
  /// Enqueues a matrix product without an activation.
  virtual void multiply(const Product& product) = 0;
  /// Enqueues one with an activation, in one pass; false, and nothing is enqueued, where the library has no algorithm for it.
  virtual bool multiply_activated(const Product& product) = 0;
  /// Enqueues a copy within the device.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Bytes of the last cache before memory; 0 where there is none.
  [[nodiscard]] virtual std::int64_t cache_bytes() const { return 0; }
  /// Whether times mean anything.
  [[nodiscard]] virtual bool has_clock() const { return true; }
  /// Seconds that what `body` enqueues takes, without gaps between launches.
  virtual double seconds_of(const std::function<void()>& body) = 0;

  /// Names what is enqueued from here to the end of the range, for profilers.
  virtual void begin_range(std::string_view /*op*/) {}
  virtual void end_range() {}
};

}  // namespace oxrse

#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"

/// What tests do with the GPUs that cuda_runtime.h and nccl.h of this folder stand for.
namespace oxrse::comm::stand_in {

/// A call that does not work on a device, the first `after` times left out. "async" is an error that NCCL reports later.
struct Failure {
  std::string_view call;
  int device = 0;
  int code = 0;  // what it returns
  int after = 0;
};

/// The GPUs of the machine while it exists, and what goes wrong with them. At its end no memory may be left on them.
class Machine {
 public:
  explicit Machine(int devices, std::vector<Failure> failures = {});
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// From here on the calling thread sees this GPU only, as number 0.
  static void show_only(int device);
  /// Managed memory of the calling thread's GPU: the host's, too, at the same address. `cudaFree` takes it.
  static std::byte* allocate_managed(std::size_t bytes);
  /// Bytes that are allocated on all GPUs, and that were at the most.
  static std::int64_t allocated();
  static std::int64_t most_allocated();
};

/// Bytes that NCCL has moved since the program began.
std::int64_t moved_bytes();

/// Runs `work` in the stream's turn; an exception is an error of its device.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/// Where the elements of a tensor in a device's memory are for the CPU. Throws when they are not all in one allocation of the device.
std::byte* host_address(const void* memory, std::size_t bytes, int device);
/// What `call` has to return, 0 when it shall work.
int failure_of(std::string_view call, int device);

/// The device of the calling thread, among all.
int current_device();

/// What a cudaStream_t points to here: a thread. It is no CUstream_st, because the emulation of kernels has one in the same program.
class Stream {
 public:
  explicit Stream(int of_device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  static Stream& of(cudaStream_t stream) { return *reinterpret_cast<Stream*>(stream); }
  cudaStream_t handle() { return reinterpret_cast<cudaStream_t>(this); }

  /// The number of what was put there last.
  std::uint64_t push(std::function<void()> work);
  /// Whether it has ended.
  cudaError_t reached(std::uint64_t number);
  void synchronize(std::uint64_t number);

  const int device;

 private:
  struct State;
  State* state_;
};

/// The same for what runs on a stream, which alone may look at a device's memory.
template <class Byte>
BasicTensor<Byte> on_host(const BasicTensor<Byte>& t, cudaStream_t stream) {
  return {host_address(t.address(), static_cast<std::size_t>(t.bytes()), Stream::of(stream).device), t.dtype(), {t.count()}};
}

}  // namespace oxrse::comm::stand_in

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"

// What the types of the CUDA runtime point to.
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace oxrse::cuda {

using Stream = CUstream_st*;
using Event = CUevent_st*;
using Graph = CUgraph_st*;
using GraphExec = CUgraphExec_st*;

/// A GPU of this machine.
struct Properties {
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::int64_t memory = 0;      // bytes
  std::int64_t cache = 0;       // bytes of the L2 cache
  bool managed_memory = false;  // whether host and device can have memory at the same address

  /// "NVIDIA H200 (sm_90, 132 multiprocessors, 139.8 GiB)"
  [[nodiscard]] std::string describe() const;
};

/// D = f(op(A) op(B) [+ C] [+ bias]), column-major as cuBLAS has it: A is (m, k), B is (k, n), C and D are (m, n), and the bias (m) is
/// added to every column. Sums are f32. f is nothing, GELU, or multiplication with GELU'(aux), in the tanh form; aux is (m, n).
struct Multiplication {
  DType type = DType::None;    // of A and B
  DType result = DType::None;  // of C, D and bias
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;  // elements from one column to the next
  bool add = false;                                 // C is there
  bool bias = false;
  enum class Activation : std::uint8_t { None, Gelu, GeluGradient } activation = Activation::None;
  std::int64_t ldaux = 0;
  int alignment = 16;  // bytes that all addresses and columns are multiples of

  /// "bf16->f32 TN 768x1024x3072 ld 3072 3072 768 768 +c +bias /16": what an algorithm is chosen for.
  [[nodiscard]] std::string key() const;
};

/// Where its matrices are; `c`, `bias` and `aux` are null where they are absent. Activation::Gelu writes aux: what GELU is of.
struct Operands {
  const void *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr;
  void *d = nullptr, *aux = nullptr;
};

/// An algorithm of the library: cublasLtMatmulAlgo_t.
using Algorithm = std::array<std::uint64_t, 8>;

/// The calls to CUDA's libraries that the runtime is made of. There are two: NVIDIA's (nvidia.cpp) and a stand-in on the CPU
/// (cuda/emulation/stand_in.h), so that everything above them is tested without a GPU. What fails is a DeviceError that names the call.
class Api {
 public:
  Api() = default;
  virtual ~Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  /// The devices of this machine; an Error says why there are none.
  virtual std::vector<Properties> devices() = 0;
  /// Everything from here on is on this device.
  virtual void select(int device) = 0;
  virtual std::int64_t free_bytes() = 0;

  /// Device: of the GPU alone. Shared: at one address for both, kept on the GPU. Pinned: of the host, copied from without waiting.
  enum class Memory : std::uint8_t { Device, Shared, Pinned };
  virtual std::byte* allocate(Memory kind, std::size_t bytes) = 0;
  virtual void release(Memory kind, std::byte* memory) noexcept = 0;

  virtual Stream make_stream() = 0;
  virtual void release(Stream stream) noexcept = 0;
  virtual void wait(Stream stream) = 0;
  /// The same for kernels that may never end: after so many seconds nothing on the device can be waited for or freed any more, so the
  /// process ends, and says why.
  virtual void wait_or_end(Stream stream, double seconds, const std::string& why) = 0;
  virtual void copy(Stream stream, void* to, const void* from, std::size_t bytes) = 0;

  virtual Event make_event() = 0;
  virtual void release(Event event) noexcept = 0;
  virtual void record(Event event, Stream stream) = 0;
  /// Waits for `end`. Both must have been recorded.
  virtual double seconds_between(Event begin, Event end) = 0;

  /// What is enqueued until the end is kept as a graph and not run.
  virtual void begin_capture(Stream stream) = 0;
  virtual Graph end_capture(Stream stream) = 0;
  /// Ends a capture that failed.
  virtual void abandon_capture(Stream stream) noexcept = 0;
  virtual GraphExec instantiate(Graph graph) = 0;
  /// Gives `exec` the parameters of `graph`; false when it has other nodes.
  virtual bool update(GraphExec exec, Graph graph) = 0;
  /// Brings a graph to the device ahead of its first launch, which would do that within its time.
  virtual void upload(GraphExec exec, Stream stream) = 0;
  virtual void launch(GraphExec exec, Stream stream) = 0;
  virtual void release(Graph graph) noexcept = 0;
  virtual void release(GraphExec exec) noexcept = 0;

  /// Names of ranges for profilers (NVTX).
  virtual void begin_range(std::string_view name) = 0;
  virtual void end_range() noexcept = 0;

  /// The version of the matrix library, which algorithms belong to.
  virtual std::string library_version() = 0;
  /// Algorithms that need at most `workspace` bytes, the one that should be fastest first; none where the library has none.
  virtual std::vector<Algorithm> algorithms(const Multiplication& product, const Operands& operands, std::size_t workspace, int most) = 0;
  /// Whether the library takes this algorithm, which may be from a file.
  virtual bool accepts(const Multiplication& product, const Operands& operands, const Algorithm& algorithm, std::size_t workspace) = 0;
  virtual void multiply(Stream stream, const Multiplication& product, const Operands& operands, const Algorithm& algorithm,
                        std::byte* workspace, std::size_t workspace_bytes) = 0;
};

}  // namespace oxrse::cuda

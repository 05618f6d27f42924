#include "cuda/runtime/nvidia.h"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "cuda/runtime/error.h"
#include "cuda/runtime/lt.h"
#include "engine/core/device.h"

namespace oxrse::cuda {
namespace {

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

std::string megabytes(std::size_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 0x1p20); }

/// Errors of kernels come with the next call that waits.
constexpr std::string_view kEarlier = "what was enqueued before (set CUDA_LAUNCH_BLOCKING=1 to have the kernel named)";

cublasLtMatmulAlgo_t unpack(const Algorithm& algorithm) {
  cublasLtMatmulAlgo_t result;
  std::memcpy(&result, algorithm.data(), sizeof result);
  return result;
}

class Nvidia : public Api {
 public:
  std::vector<Properties> devices() override {
    int driver = 0, count = 0;
    check("cudaDriverGetVersion", "", cudaDriverGetVersion(&driver));
    if (driver == 0) throw DeviceError("this machine has no NVIDIA driver");
    check("cudaGetDeviceCount", "", cudaGetDeviceCount(&count));
    std::vector<Properties> all;
    for (int i = 0; i < count; ++i) {
      cudaDeviceProp p{};
      check("cudaGetDeviceProperties", "", cudaGetDeviceProperties(&p, i));
      all.push_back({.name = p.name,
                     .major = p.major,
                     .minor = p.minor,
                     .multiprocessors = p.multiProcessorCount,
                     .memory = static_cast<std::int64_t>(p.totalGlobalMem),
                     .cache = p.l2CacheSize,
                     .managed_memory = p.managedMemory != 0});
    }
    return all;
  }

  void select(int device) override {
    check("cudaSetDevice", std::to_string(device), cudaSetDevice(device));
    device_ = device;
    if (lt_ != nullptr) return;
    const cublasStatus_t status = cublasLtCreate(&lt_);
    if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError(fmt::format("cublasLtCreate: {}", cublasLtGetStatusString(status)));
  }

  std::int64_t free_bytes() override {
    std::size_t free = 0, total = 0;
    check("cudaMemGetInfo", "", cudaMemGetInfo(&free, &total));
    return static_cast<std::int64_t>(free);
  }

  std::byte* allocate(Memory kind, std::size_t bytes) override {
    void* memory = nullptr;
    switch (kind) {
      case Memory::Device: check("cudaMalloc", megabytes(bytes), cudaMalloc(&memory, bytes)); break;
      case Memory::Pinned: check("cudaMallocHost", megabytes(bytes), cudaMallocHost(&memory, bytes)); break;
      case Memory::Shared: memory = allocate_shared(bytes); break;
    }
    return static_cast<std::byte*>(memory);
  }

  void release(Memory kind, std::byte* memory) noexcept override { kind == Memory::Pinned ? cudaFreeHost(memory) : cudaFree(memory); }

  Stream make_stream() override {
    Stream stream = nullptr;
    check("cudaStreamCreateWithFlags", "", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
  void release(Stream stream) noexcept override { cudaStreamDestroy(stream); }
  void wait(Stream stream) override { check("cudaStreamSynchronize", kEarlier, cudaStreamSynchronize(stream)); }
  void wait_or_end(Stream stream, double seconds, const std::string& why) override {
    const auto begin = std::chrono::steady_clock::now();
    cudaError_t status = cudaErrorNotReady;
    while ((status = cudaStreamQuery(stream)) == cudaErrorNotReady) {
      if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds)) {
        fmt::print(stderr, "error: {}\n", why);
        std::_Exit(EXIT_FAILURE);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    check("cudaStreamQuery", kEarlier, status);
  }
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    check("cudaMemcpyAsync", megabytes(bytes), cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  }

  Event make_event() override {
    Event event = nullptr;
    check("cudaEventCreate", "", cudaEventCreate(&event));
    return event;
  }
  void release(Event event) noexcept override { cudaEventDestroy(event); }
  void record(Event event, Stream stream) override { check("cudaEventRecord", "", cudaEventRecord(event, stream)); }
  double seconds_between(Event begin, Event end) override {
    check("cudaEventSynchronize", kEarlier, cudaEventSynchronize(end));
    float milliseconds = 0;
    check("cudaEventElapsedTime", "", cudaEventElapsedTime(&milliseconds, begin, end));
    return static_cast<double>(milliseconds) * 1e-3;
  }

  // Relaxed: scratch memory may grow while a graph is captured.
  void begin_capture(Stream stream) override {
    check("cudaStreamBeginCapture", "", cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  }
  Graph end_capture(Stream stream) override {
    Graph graph = nullptr;
    check("cudaStreamEndCapture", "", cudaStreamEndCapture(stream, &graph));
    return graph;
  }
  void abandon_capture(Stream stream) noexcept override {
    Graph graph = nullptr;
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // that of the capture stays otherwise
  }
  GraphExec instantiate(Graph graph) override {
    GraphExec exec = nullptr;
    check("cudaGraphInstantiate", "", cudaGraphInstantiate(&exec, graph, 0));
    return exec;
  }
  bool update(GraphExec exec, Graph graph) override {
    cudaGraphExecUpdateResultInfo info{};
    const cudaError_t status = cudaGraphExecUpdate(exec, graph, &info);
    if (status != cudaErrorGraphExecUpdateFailure) check("cudaGraphExecUpdate", "", status);
    cudaGetLastError();
    return status == cudaSuccess;
  }
  void upload(GraphExec exec, Stream stream) override { check("cudaGraphUpload", "", cudaGraphUpload(exec, stream)); }
  void launch(GraphExec exec, Stream stream) override { check("cudaGraphLaunch", "", cudaGraphLaunch(exec, stream)); }
  void release(Graph graph) noexcept override { cudaGraphDestroy(graph); }
  void release(GraphExec exec) noexcept override { cudaGraphExecDestroy(exec); }

  void begin_range(std::string_view name) override { nvtxRangePushA(std::string(name).c_str()); }
  void end_range() noexcept override { nvtxRangePop(); }

  std::string library_version() override { return fmt::format("cublasLt {}", cublasLtGetVersion()); }

  std::vector<Algorithm> algorithms(const Multiplication& product, const Operands& operands, std::size_t workspace, int most) override {
    const LtProduct lt(product, operands);
    const LtPreference preference(product, workspace);
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(lt_, lt.operation, lt.a, lt.b, lt.c, lt.d, preference.get(), most, results.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    check("cublasLtMatmulAlgoGetHeuristic", product, status);
    std::vector<Algorithm> all;
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
      if (result.state == CUBLAS_STATUS_SUCCESS) std::memcpy(all.emplace_back().data(), &result.algo, sizeof result.algo);
    }
    return all;
  }

  bool accepts(const Multiplication& product, const Operands& operands, const Algorithm& algorithm, std::size_t workspace) override {
    const LtProduct lt(product, operands);
    const cublasLtMatmulAlgo_t algo = unpack(algorithm);
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(lt_, lt.operation, lt.a, lt.b, lt.c, lt.d, &algo, &result);
    return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace;
  }

  void multiply(Stream stream, const Multiplication& product, const Operands& operands, const Algorithm& algorithm, std::byte* workspace,
                std::size_t workspace_bytes) override {
    const LtProduct lt(product, operands);
    const cublasLtMatmulAlgo_t algo = unpack(algorithm);
    const float alpha = 1, beta = product.add ? 1 : 0;
    check("cublasLtMatmul", product,
          cublasLtMatmul(lt_, lt.operation, &alpha, operands.a, lt.a, operands.b, lt.b, &beta, product.add ? operands.c : operands.d, lt.c,
                         operands.d, lt.d, &algo, workspace, workspace_bytes, stream));
  }

 private:
  /// Managed memory that stays on the device, and is there from the start.
  void* allocate_shared(std::size_t bytes) const {
    void* memory = nullptr;
    check("cudaMallocManaged", megabytes(bytes), cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal));
    const cudaMemLocation here{.type = cudaMemLocationTypeDevice, .id = device_};
    // Advice only: devices without page faults keep such memory as they must.
    cudaMemAdvise(memory, bytes, cudaMemAdviseSetPreferredLocation, here);
    cudaMemPrefetchAsync(memory, bytes, here, 0, nullptr);
    cudaGetLastError();
    check("cudaDeviceSynchronize", kEarlier, cudaDeviceSynchronize());
    return memory;
  }

  int device_ = 0;
  cublasLtHandle_t lt_ = nullptr;
};

}  // namespace

Api& nvidia_api() {
  static Nvidia api;
  return api;
}

}  // namespace oxrse::cuda

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/runtime/handle.h"
#include "cuda/runtime/matmul.h"
#include "cuda/runtime/staging.h"

namespace oxrse::cuda {

/// A GPU: one stream, in which everything is done in order.
///
/// Tensors are in memory that host and GPU have at one address and that is kept on the GPU, one allocation an arena. Numbers go there
/// through pinned staging memory. The first `run_step` after an allocation runs as it is, measures algorithms and makes memory; the steps
/// after it are captured as a graph each, which differs from the one before in its parameters only, and launched as a whole.
class Gpu : public Cuda {
 public:
  /// Device `index` of `api` with these kernels; the fastest algorithms of matrix products are kept in `cache_file`.
  Gpu(std::string_view device_name, const KernelTable& table, Api& api, int index, const std::filesystem::path& cache_file);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() override;

  std::byte* allocate(std::int64_t bytes) override;
  void release(std::byte* memory) noexcept override;
  std::int64_t available_bytes() override { return api_.free_bytes(); }
  void write(std::byte* to, std::span<const std::byte> from) override;
  void wait() override;
  void run_step(const std::function<void()>& step) override;
  void agree(const Agree& agree) override { matmul_.agree(agree); }
  [[nodiscard]] std::string description() const override;

  void* scratch(std::size_t bytes) override;
  void multiply(const Product& product) override;
  bool multiply_activated(const Product& product) override { return matmul_.multiply(stream, product, !capturing_); }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override { api_.copy(stream, to, from, bytes); }
  double seconds_of(const std::function<void()>& body) override;
  [[nodiscard]] std::int64_t cache_bytes() const override { return properties_.cache; }
  void begin_range(std::string_view op) override { api_.begin_range(op); }
  void end_range() override { api_.end_range(); }

 private:
  /// Whether attention's kernel for compute capability 9.0 is in the program, for this GPU, and passes its test on it; if not the latter,
  /// a warning says so.
  bool works_with_wgmma();
  Handle<Graph> capture(const std::function<void()>& body);

  Api& api_;
  Properties properties_;
  Handle<Stream> own_stream_;
  Staging staging_;
  Matmul matmul_;
  Buffer scratch_;
  std::vector<Buffer> outgrown_;  // scratch that launches before may still use
  Handle<GraphExec> step_;
  bool capturing_ = false;
  bool warm_ = false;  // a step has run in the memory that there is
};

/// The number of this process among those of its machine, as its launcher says: MPICH's mpirun, Open MPI or Slurm; 0 without one.
int local_rank();

/// Which of `count` devices a process takes. A launcher may show every process only its own. An Error when there are more processes than
/// devices.
int device_of(int local_rank, int count);

}  // namespace oxrse::cuda

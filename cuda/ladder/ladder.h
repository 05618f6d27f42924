#pragma once

#include <string_view>
#include <vector>

#include "cuda/kernels/table.h"

// Two kernels from naive to fast, for reading (docs/kernels). Every rung is whole: it takes what the op takes (heads up to a width of 128
// in attention), is tested as the op is, and can be measured: `oxrse bench kernels --filter ladder`. The last rung is the engine's kernel.
namespace oxrse {
namespace cuda {

/// A way to compute an op on a GPU.
template <class Op>
struct Rung {
  std::string_view name;
  Kernel<Op> launch = nullptr;
  bool deterministic = true;  // the same bits in every run
};

/// From the slowest to the engine's.
struct Ladders {
  std::vector<Rung<ops::RmsNorm::Backward>> rmsnorm_backward;
  std::vector<Rung<ops::Attention>> attention_forward;
};

/// While it lives, the device computes the rung's op by the rung.
template <class Op>
class RungInUse {
 public:
  RungInUse(Cuda& cuda, const Rung<Op>& rung) : cuda_(cuda), before_(cuda.kernels), table_(*before_) {
    std::get<Kernel<Op>>(table_.kernels) = rung.launch;
    cuda_.kernels = &table_;
  }
  ~RungInUse() { cuda_.kernels = before_; }
  RungInUse(const RungInUse&) = delete;
  RungInUse& operator=(const RungInUse&) = delete;

 private:
  Cuda& cuda_;
  const KernelTable* before_;
  KernelTable table_;
};

}  // namespace cuda

namespace OXRSE_GPU {

/// The ladders that this compiler made.
const cuda::Ladders& ladders();

namespace ladder {

void rmsnorm_thread_a_row(Cuda& cuda, const ops::RmsNorm::Backward& op);
void rmsnorm_warp_a_row(Cuda& cuda, const ops::RmsNorm::Backward& op);
void rmsnorm_block_sums(Cuda& cuda, const ops::RmsNorm::Backward& op);
void rmsnorm_ordered_sums(Cuda& cuda, const ops::RmsNorm::Backward& op);

void attention_scores_in_memory(Cuda& cuda, const ops::Attention& op);
void attention_warp_a_query(Cuda& cuda, const ops::Attention& op);
void attention_shared_tiles(Cuda& cuda, const ops::Attention& op);
void attention_tensor_cores(Cuda& cuda, const ops::Attention& op);
void attention_two_buffers(Cuda& cuda, const ops::Attention& op);

}  // namespace ladder
}  // namespace OXRSE_GPU
}  // namespace oxrse

#include "cuda/devices.h"

#ifdef OXRSE_HAVE_CUDA_EMULATION
#include "cuda/device.h"
#include "cuda/kernels/kernels.h"
#include "engine/core/devices.h"

namespace oxrse::cuda {
namespace {

template <class... Ops>
void enter_kernels() {
  ((ops::cuda_kernel<Ops> = [](Cuda& device, const Ops& op) { launch(device, op); }), ...);
}

}  // namespace

void add_devices() {
  using namespace ops;  // NOLINT(google-build-using-namespace): the list below is one of ops
  enter_kernels<Gelu, Gelu::Backward, SwiGlu, SwiGlu::Backward, Attention, Attention::Backward, CrossEntropy, Dropout, Fill, FillNormal,
                Cast, Add, Sum, Embedding, Embedding::Backward, LayerNorm, LayerNorm::Backward, Linear, Linear::Backward, SumSquares,
                ClipFactor, AdamW, Sgd, RoundAtRandom, RmsNorm, RmsNorm::Backward, RopeTable, Rope>();
  static Cuda emulated;
  add_device(emulated.name, emulated);
}

}  // namespace oxrse::cuda

#else

void oxrse::cuda::add_devices() {}

#endif

#include "cuda/devices.h"

#ifdef OXRSE_HAVE_CUDA_EMULATION
#include "cuda/emulation/device.h"
#include "cuda/kernels/table.h"
#include "engine/core/devices.h"

namespace oxrse::cuda {
namespace {

template <class... Ops>
void enter_kernels(TypeList<Ops...> /*ops*/) {
  ((ops::cuda_kernel<Ops> = [](Cuda& device, const Ops& op) { std::get<Kernel<Ops>>(device.kernels->kernels)(device, op); }), ...);
}

}  // namespace

void add_devices() {
  enter_kernels(AllOps{});
  static cuda_emulated::Device emulated;
  add_device(emulated.name, emulated);
}

}  // namespace oxrse::cuda

#else

void oxrse::cuda::add_devices() {}

#endif

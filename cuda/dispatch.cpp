#include "cuda/dispatch.h"

#include <tuple>

#include "cuda/device.h"
#include "cuda/kernels/table.h"
#include "engine/ops/run.h"

namespace oxrse::cuda {
namespace {

template <class... Ops>
void enter(TypeList<Ops...> /*ops*/) {
  ((ops::device_kernel<Ops> =
        [](Device& device, const Ops& op) {
          auto& cuda = static_cast<Cuda&>(device);  // all devices are
          std::get<Kernel<Ops>>(cuda.kernels->kernels)(cuda, op);
        }),
   ...);
}

}  // namespace

void enter_kernels() { enter(AllOps{}); }

}  // namespace oxrse::cuda

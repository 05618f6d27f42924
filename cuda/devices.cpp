#include "cuda/devices.h"

#ifdef OXRSE_HAVE_CUDA_EMULATION
#include "cuda/emulation/device.h"
#endif
#include "cuda/kernels/table.h"
#ifdef OXRSE_HAVE_CUDA
#include "cuda/runtime/gpu.h"
#include "cuda/runtime/nvidia.h"
#endif
#include "engine/core/devices.h"

namespace oxrse::cuda {
namespace {

template <class... Ops>
void enter_kernels(TypeList<Ops...> /*ops*/) {
  ((ops::device_kernel<Ops> =
        [](Device& device, const Ops& op) {
          auto& cuda = static_cast<Cuda&>(device);  // all devices are
          std::get<Kernel<Ops>>(cuda.kernels->kernels)(cuda, op);
        }),
   ...);
}

#ifdef OXRSE_HAVE_CUDA
/// The GPU of this process, from the first call on.
Device& open_gpu() {
  try {
    Api& api = nvidia_api();
    const std::vector<Properties> all = api.devices();
    const int index = device_of(local_rank(), static_cast<int>(all.size()));
    static Gpu gpu("cuda", kernel_table(), api, index,
                   algorithm_cache_file(all[static_cast<std::size_t>(index)].name + " " + api.library_version()));
    return gpu;
  } catch (const Error& error) {
    fail("run.device \"cuda\" cannot be used here: {}; set run.device to \"cpu\"", error.what());
  }
}
#endif

}  // namespace

void add_devices() {
  enter_kernels(AllOps{});
#ifdef OXRSE_HAVE_CUDA_EMULATION
  add_device("cuda-emulated", []() -> Device& {
    static cuda_emulated::Device emulated;
    return emulated;
  });
#endif
#ifdef OXRSE_HAVE_CUDA
  add_device("cuda", open_gpu);
#endif
}

std::vector<std::string> describe_gpus() {
  std::vector<std::string> lines;
#ifdef OXRSE_HAVE_CUDA
  for (const Properties& p : nvidia_api().devices()) lines.push_back(p.describe());
#endif
  return lines;
}

}  // namespace oxrse::cuda

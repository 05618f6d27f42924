#include "cuda/devices.h"

#include <optional>

#include "cuda/dispatch.h"
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

std::optional<int>& given_rank() {
  static std::optional<int> rank;
  return rank;
}

#ifdef OXRSE_HAVE_CUDA
/// The GPU of this process, from the first call on.
Device& open_gpu() {
  try {
    Api& api = nvidia_api();
    const std::vector<Properties> all = api.devices();
    const int index = device_of(given_rank().value_or(local_rank()), static_cast<int>(all.size()));
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
  enter_kernels();
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

void use_local_rank(int rank) { given_rank() = rank; }

std::vector<std::string> describe_gpus() {
  std::vector<std::string> lines;
#ifdef OXRSE_HAVE_CUDA
  for (const Properties& p : nvidia_api().devices()) lines.push_back(p.describe());
#endif
  return lines;
}

}  // namespace oxrse::cuda

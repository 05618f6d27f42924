#include "cuda/collectives.h"

namespace oxrse::cuda {

CollectiveKernels collective_kernels() {
#ifdef OXRSE_HAVE_CUDA
  return {.add = add, .convert = convert};
#else
  return {};
#endif
}

}  // namespace oxrse::cuda

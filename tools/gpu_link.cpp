#include "tools/gpu_link.h"

#include "comm/transport/nccl.h"
#include "cuda/collectives.h"
#include "cuda/devices.h"

namespace oxrse::tools {

void connect_gpus(comm::Communicator& ranks, const comm::LocalRank& local) {
  cuda::use_local_rank(local.rank);
  const cuda::CollectiveKernels kernels = cuda::collective_kernels();
  comm::connect_nccl(ranks, local, {.add = kernels.add, .convert = kernels.convert});
}

void add_links() {
  if (comm::nccl_status().starts_with("built in")) comm::add_link("cuda", connect_gpus);
}

}  // namespace oxrse::tools

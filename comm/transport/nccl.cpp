#include "comm/transport/nccl.h"

#include "engine/core/build_info.h"
#include "engine/core/error.h"

#ifdef OXRSE_HAVE_NCCL
#include <cstring>
#include <map>
#include <vector>

#include "comm/transport/nccl_transport.h"
#endif

namespace oxrse::comm {

std::string nccl_status() { return std::string(build_info().nccl); }

#ifndef OXRSE_HAVE_NCCL

void connect_nccl(Communicator& /*ranks*/, const LocalRank& /*local*/, const DeviceKernels& /*kernels*/) {
  fail("this build has no NCCL: {}", nccl_status());
}

#else

namespace {

/// A rank's GPU: its number among those that the process sees, and what tells it from all others; or why there is none.
struct Gpu {
  int device = 0;
  std::string id;  // "GPU 0123456789abcdef0123456789abcdef"
  std::string problem;
};

int choose_device(const LocalRank& local) {
  int visible = 0;
  check_cuda("cudaGetDeviceCount", cudaGetDeviceCount(&visible));
  require(visible > 0, "no GPU is visible");
  // The launcher may show every rank one of its own, as srun --gpus-per-task=1 does; whether they differ is seen later.
  if (visible == 1) return 0;
  require(local.rank < visible,
          "{} ranks on a machine of which {} GPUs are visible: start one rank a GPU, or show each rank its own (srun --gpus-per-task=1)",
          local.size, visible);
  return local.rank;
}

Gpu find_gpu(const LocalRank& local) {
  Gpu gpu;
  try {
    gpu.device = choose_device(local);
    cudaDeviceProp properties{};
    check_cuda("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, gpu.device));
    gpu.id = "GPU ";
    for (const char byte : properties.uuid.bytes) gpu.id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  } catch (const Error& error) {
    gpu.problem = error.what();
  }
  return gpu;
}

/// The same Error on all ranks when one has no GPU or shares it with another: NCCL would wait for ever, or say so on one of them.
void require_gpus(Communicator& ranks, const Gpu& mine) {
  const std::vector<std::string> problems = ranks.all_gather(mine.problem, "problems with GPUs");
  for (int r = 0; r < ranks.size(); ++r) {
    const std::string& problem = problems[static_cast<std::size_t>(r)];
    require(problem.empty(), "{} has no GPU: {}", ranks.name_of_rank(r), problem);
  }
  std::map<std::string, int> owners;
  const std::vector<std::string> ids = ranks.all_gather(mine.id, "GPUs");
  for (int r = 0; r < ranks.size(); ++r) {
    const auto [owner, is_first] = owners.try_emplace(ids[static_cast<std::size_t>(r)], r);
    require(is_first, "{} and {} have the same {}: start one rank a GPU", ranks.name_of_rank(owner->second), ranks.name_of_rank(r),
            owner->first);
  }
}

/// What the first rank draws for the communicator of all.
ncclUniqueId share_id(Communicator& ranks) {
  ncclUniqueId id{};
  std::string text(sizeof id, '\0'), problem;
  if (ranks.rank() == 0) {
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) problem = ncclGetErrorString(result);
    std::memcpy(text.data(), &id, sizeof id);
  }
  problem = ranks.broadcast(problem, 0, "NCCL's id");
  require(problem.empty(), "{}, ncclGetUniqueId: {}", ranks.name_of_rank(0), problem);
  text = ranks.broadcast(text, 0, "NCCL's id");
  std::memcpy(&id, text.data(), sizeof id);
  return id;
}

}  // namespace

void connect_nccl(Communicator& ranks, const LocalRank& local, const DeviceKernels& kernels) {
  const Gpu gpu = find_gpu(local);
  require_gpus(ranks, gpu);
  const ncclUniqueId id = share_id(ranks);
  try {
    auto rank = std::make_unique<NcclRank>(gpu.device, ranks.rank(), ranks.size(), id, ranks.settings().timeout_s);
    ranks.use_device(std::make_unique<NcclTransport>(std::move(rank), kernels));
  } catch (const Error& error) {
    throw error.in(ranks.name_of_rank(ranks.rank()));
  }
}

#endif

}  // namespace oxrse::comm

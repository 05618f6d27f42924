#include "tests/comm/nccl/ranks.h"

#include "comm/transport/nccl.h"
#include "cuda/collectives.h"
#include "tests/comm/nccl/stand_in/stand_in.h"
#include "tests/comm/ranks.h"

namespace oxrse::comm::testing {
namespace {

void check_enqueued(cudaError_t status) { require(status == cudaSuccess, "a kernel: {}", cudaGetErrorString(status)); }

/// The kernels, emulated, in the turn of the stream.
DeviceKernels emulated_kernels() {
  return {.add =
              [](CUstream_st* stream, const Tensor& to, const ConstTensor& with, const ConstTensor& from) {
                check_enqueued(stand_in::enqueue(stream, [=] {
                  cuda_emulated::add(nullptr, stand_in::on_host(to, stream), stand_in::on_host(with, stream),
                                     stand_in::on_host(from, stream));
                }));
              },
          .convert =
              [](CUstream_st* stream, const Tensor& to, const ConstTensor& from) {
                check_enqueued(stand_in::enqueue(
                    stream, [=] { cuda_emulated::convert(nullptr, stand_in::on_host(to, stream), stand_in::on_host(from, stream)); }));
              }};
}

}  // namespace

std::vector<std::string> run_gpu_ranks(int n, const std::function<void(Communicator&)>& body, const Settings& settings,
                                       const std::function<void(int rank)>& before) {
  return run_ranks(
      n,
      [&](Communicator& ranks) {
        before(ranks.rank());
        connect_nccl(ranks, {.rank = ranks.rank(), .size = n}, emulated_kernels());
        body(ranks);
        ranks.use_device(nullptr);  // here, because all leave together
      },
      settings);
}

}  // namespace oxrse::comm::testing

// What goes wrong with GPUs: who gets which, and whose call failed. tests/comm/communicator.cpp has what goes right.

#include "comm/transport/nccl.h"

#include <nccl.h>

#include <atomic>

#include "tests/catch.h"
#include "tests/comm/cases.h"
#include "tests/comm/nccl/ranks.h"
#include "tests/comm/nccl/stand_in/stand_in.h"
#include "tests/comm/vector.h"

using namespace oxrse;
using namespace oxrse::comm;
using namespace oxrse::comm::testing;
using Catch::Matchers::Contains;
using stand_in::Machine;

namespace {

void check_none(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error.empty());
}

/// Every rank's error has all of these.
void check_all(const std::vector<std::string>& errors, const std::vector<std::string>& texts) {
  for (const std::string& error : errors) {
    for (const std::string& text : texts) CHECK_THAT(error, Contains(text));
  }
}

}  // namespace

TEST_CASE("a rank computes on the GPU of its number on the machine, or on the only one that it sees", "[comm][nccl]") {
  const Machine machine(5);
  std::atomic<int> wrong = 0;
  const auto sum = [&](Communicator& ranks) {
    if (stand_in::current_device() != ranks.rank()) ++wrong;
    sum_of(ranks, 100);
  };
  check_none(run_gpu_ranks(3, sum));
  check_none(run_gpu_ranks(3, sum, {}, [](int rank) { Machine::show_only(rank); }));
  CHECK(wrong == 0);
}

TEST_CASE("ranks without a GPU of their own are refused on all ranks", "[comm][nccl]") {
  const auto nothing = [](Communicator& /*ranks*/) {};
  {
    const Machine machine(2);
    check_all(run_gpu_ranks(3, nothing), {"rank 2 (thread 2", "3 ranks on a machine of which 2 GPUs are visible"});
  }
  {
    const Machine machine(0);
    check_all(run_gpu_ranks(2, nothing), {"rank 0 (thread 0", "cudaGetDeviceCount: no CUDA-capable device is detected"});
  }
  {
    const Machine machine(3);
    check_all(run_gpu_ranks(3, nothing, {}, [](int rank) { Machine::show_only(rank == 2 ? 1 : rank); }),
              {"rank 1 (thread 1", "rank 2 (thread 2", "have the same GPU a0000000000000000000000000000001"});
  }
}

TEST_CASE("a call that fails is named with rank and operation, on all ranks", "[comm][nccl]") {
  struct Case {
    stand_in::Failure failure;
    const char* text;
  };
  const Case cases[] = {
      {{"ncclSend", 1, ncclSystemError}, "ncclSend on GPU 1: unhandled system error (the stand-in was told to)"},
      {{"ncclRecv", 1, ncclInvalidArgument, 1}, "ncclRecv on GPU 1: invalid argument"},
      {{"ncclGroupEnd", 1, ncclUnhandledCudaError}, "ncclGroupEnd on GPU 1: unhandled cuda error"},
      {{"async", 1, ncclRemoteError, 20}, "NCCL on GPU 1: remote process exited"},
      {{"cudaMallocAsync", 1, cudaErrorMemoryAllocation}, "cudaMallocAsync: out of memory"},
  };
  for (const Case& c : cases) {
    const Machine machine(3, {c.failure});
    const auto errors = run_gpu_ranks(3,
                                      [](Communicator& ranks) {
                                        for (int i = 0; i < 20; ++i) sum_of(ranks, 1000, DType::BF16);
                                      },
                                      {.choice = {.allowed = {Algorithm::Ring}, .keep_tree = false}, .timeout_s = 60, .query_s = 0.1});
    INFO(c.failure.call);
    check_all(errors, {"rank 1 (thread 1", c.text, "all_reduce of 1000 bf16 by ring on the GPU (test)"});
  }
}

TEST_CASE("GPUs that cannot be connected", "[comm][nccl]") {
  const auto nothing = [](Communicator& /*ranks*/) {};
  {
    const Machine machine(2, {{"ncclGetUniqueId", 0, ncclSystemError}});
    check_all(run_gpu_ranks(2, nothing), {"rank 0 (thread 0", "ncclGetUniqueId: unhandled system error"});
  }
  {
    // One rank fails, the other waits for it in vain.
    const Machine machine(2, {{"ncclCommInitRankConfig", 1, ncclSystemError}});
    const auto errors = run_gpu_ranks(2, nothing, {.choice = {}, .timeout_s = 0.3, .query_s = 0.1});
    CHECK_THAT(errors[0], Contains("rank 0 (thread 0") && Contains("ncclCommInitRankConfig on GPU 0: not done after 0.3 s"));
    CHECK_THAT(errors[1], Contains("rank 1 (thread 1") && Contains("ncclCommInitRankConfig on GPU 1: unhandled system error"));
  }
}

TEST_CASE("operands where a rank has none, or others have theirs elsewhere, are refused", "[comm][nccl]") {
  const Machine machine(2);
  const auto errors = run_gpu_ranks(2,
                                    [](Communicator& ranks) {
                                      Vector on_device(ranks, 10, DType::F32);
                                      std::vector<float> on_host(10);
                                      auto* host = reinterpret_cast<std::byte*>(on_host.data());
                                      Request r = request(Collective::AllReduce, 2, 10);
                                      r.in_place = true;
                                      Operands mine = operands(ranks, DType::F32, on_device, on_device);
                                      if (ranks.rank() == 1) mine = {.type = DType::F32, .inputs = {host}, .output = host};
                                      ranks.wait(ranks.start(ranks.plan(r, DType::F32), mine, "test"));
                                    },
                                    {.choice = {}, .timeout_s = 60, .query_s = 0.1});
  check_all(errors, {"on the GPU (test) on rank 0", "(test) on rank 1"});
}

TEST_CASE("operations that follow each other on a stream share their memory", "[comm][nccl]") {
  const Machine machine(4);
  const std::int64_t count = 40000, bytes = 4 * count;
  check_none(run_gpu_ranks(4, [&](Communicator& ranks) {
    for (int i = 0; i < 4; ++i) sum_of(ranks, count);
  }));
  CHECK(Machine::allocated() == 0);
  CHECK(Machine::most_allocated() <= 4 * 3 * bytes);  // on each: the operand, and at most two times that besides
}

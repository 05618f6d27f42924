// Data-parallel ranks whose GPUs are linked: their sums go over NCCL (a stand-in here), with the bits of one GPU.
#ifdef OXRSE_HAVE_CUDA_EMULATION
#include <algorithm>
#include <array>
#include <mutex>

#include "cuda/dispatch.h"
#include "cuda/emulation/device.h"
#include "cuda/emulation/stand_in.h"
#include "cuda/kernels/table.h"
#include "cuda/runtime/gpu.h"
#include "engine/train/plan.h"
#include "tests/catch.h"
#include "tests/comm/nccl/ranks.h"
#include "tests/comm/nccl/stand_in/stand_in.h"
#include "tests/train/fixture.h"

using namespace oxrse;
using namespace oxrse::train;
using namespace oxrse::train::testing;
namespace stand_in = oxrse::comm::stand_in;

namespace {

/// A GPU that does nothing before somebody waits, so that sums which begin too early show. Its arena is in the memory of the calling
/// thread's GPU as NCCL sees it.
class LinkedApi : public cuda_emulated::StandIn {
 public:
  std::byte* allocate(Memory kind, std::size_t bytes) override {
    return kind == Memory::Shared ? stand_in::Machine::allocate_managed(bytes) : StandIn::allocate(kind, bytes);
  }
  void release(Memory kind, std::byte* memory) noexcept override {
    kind == Memory::Shared ? static_cast<void>(cudaFree(memory)) : StandIn::release(kind, memory);
  }
};

Config config_of_ranks() {
  Config config = tiny_config();
  config.train.global_batch = 6;
  config.train.micro_batch = 1;
  config.comm.bucket_mib = 0.004;  // several buckets
  return config;
}

struct Outcome {
  std::vector<std::string> weights;  // of every rank
  std::vector<double> losses;        // of the first
  std::int64_t moved = 0;            // bytes by NCCL
  std::int64_t scratch = 0;          // bytes that all GPUs had at the most, besides arenas
};

Outcome train_on(int ranks, const Config& config, std::int64_t steps) {
  Outcome outcome;
  outcome.weights.resize(static_cast<std::size_t>(ranks));
  const std::int64_t moved = stand_in::moved_bytes();
  const stand_in::Machine machine(ranks);
  std::mutex mutex;
  std::int64_t arenas = 0;
  const auto errors = comm::testing::run_gpu_ranks(ranks,
                                                   [&](comm::Communicator& communicator) {
                                                     communicator.advance_in_background();
                                                     LinkedApi api;
                                                     cuda::Gpu device("cuda", cuda_emulated::kernel_table(), api, 0, {});
                                                     Fixture fixture(config, 1, &communicator, &device);
                                                     communicator.barrier();
                                                     {
                                                       const std::lock_guard lock(mutex);
                                                       arenas = stand_in::Machine::allocated();
                                                     }
                                                     for (std::int64_t i = 0; i < steps; ++i) {
                                                       const StepReport report = fixture.step(i);
                                                       if (communicator.rank() == 0) outcome.losses.push_back(report.loss);
                                                     }
                                                     outcome.weights[static_cast<std::size_t>(communicator.rank())] =
                                                         weights_of(fixture.training());
                                                     communicator.barrier();
                                                   },
                                                   {.choice = choice_of(config.comm)});
  for (const std::string& error : errors) CHECK(error.empty());
  outcome.moved = stand_in::moved_bytes() - moved;
  outcome.scratch = stand_in::Machine::most_allocated() - arenas;
  return outcome;
}

}  // namespace

TEST_CASE("linked GPUs train with the bits of one", "[parallel][nccl]") {
  cuda::enter_kernels();
  Config config = config_of_ranks();
  config.precision.compute = GENERATE("f32", "bf16");
  constexpr std::int64_t kSteps = 3;
  cuda_emulated::Device device;
  Fixture alone(config, 1, nullptr, &device);
  std::vector<double> losses;
  for (std::int64_t i = 0; i < kSteps; ++i) losses.push_back(alone.step(i).loss);
  const std::string weights = weights_of(alone.training());
  for (const int ranks : {2, 3}) {
    for (const int zero : {0, 1}) {
      config.parallel.zero = zero;
      INFO(ranks << " ranks, zero " << zero);
      const Outcome some = train_on(ranks, config, kSteps);
      for (const std::string& each : some.weights) CHECK(each == weights);
      CHECK(some.losses == losses);
      // Every rank gets at least the others' part of the sums, in f32, at every step.
      const std::int64_t parameters = alone.training().parameters().count();
      CHECK(some.moved >= kSteps * (ranks - 1) * parameters * size_of(DType::F32));
    }
  }
}

TEST_CASE("the ranks take the algorithms that the first has measured", "[parallel][nccl]") {
  cuda::enter_kernels();
  Config config = config_of_ranks();
  config.precision.compute = "bf16";
  constexpr int kRanks = 3;
  const stand_in::Machine machine(kRanks);
  std::array<std::vector<cuda::Algorithm>, kRanks> used;
  const auto errors = comm::testing::run_gpu_ranks(kRanks, [&](comm::Communicator& communicator) {
    const auto rank = static_cast<std::uint64_t>(communicator.rank());
    LinkedApi api;
    // On every GPU another is the fastest.
    api.seconds_of = [rank](const cuda::Algorithm& a) { return a[0] == (rank + 1) % kRanks ? 1e-6 : 2e-6; };
    cuda::Gpu device("cuda", cuda_emulated::kernel_table(), api, 0, {});
    Fixture fixture(config, 1, &communicator, &device);
    // A rank may have chosen for itself before, as the first does where it alone writes a sample.
    if (rank == 1) Fixture(config, 1, nullptr, &device).step(0);
    communicator.barrier();
    fixture.step(0);
    api.used.clear();
    fixture.step(1);
    used[rank] = api.used;
    communicator.barrier();
  });
  for (const std::string& error : errors) CHECK(error.empty());
  REQUIRE_FALSE(used[0].empty());
  for (const auto& each : used) CHECK(each == used[0]);
  CHECK(std::all_of(used[0].begin(), used[0].end(), [](const cuda::Algorithm& a) { return a[0] == 1; }));
}

TEST_CASE("sums between linked GPUs take the memory that the plan says", "[parallel][nccl]") {
  cuda::enter_kernels();
  Config config = config_of_ranks();
  config.model["width"] = 64;
  config.model["vocab"] = 1031;
  config.comm.bucket_mib = GENERATE(0.1, 25.0);
  for (const char* algorithm : {"auto", "ring", "tree", "halving", "direct"}) {
    config.comm.algorithm = algorithm;
    config.comm.deterministic = std::string(algorithm) != "ring";
    const Plan plan = make_plan(config, resolve_model(config, 0), parallel::Group::planned(3, true));
    const Outcome some = train_on(3, config, 1);
    INFO(algorithm);
    CHECK(some.scratch <= 3 * plan.communication_bytes);
    CHECK(8 * some.scratch >= 3 * plan.communication_bytes);
  }
}

#endif

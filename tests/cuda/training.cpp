// Whole training steps on a GPU of the stand-in: only what was waited for can be read, and steps are graphs.
#include "cuda/emulation/device.h"
#include "cuda/emulation/stand_in.h"
#include "cuda/kernels/table.h"
#include "cuda/runtime/gpu.h"
#include "tests/catch.h"
#include "tests/train/fixture.h"

using namespace oxrse;
using train::testing::Fixture;

namespace {

train::Config config_of_steps() {
  train::Config config = train::testing::tiny_config();
  config.train.global_batch = 4;
  config.precision.compute = "bf16";
  return config;
}

}  // namespace

TEST_CASE("training on a GPU that does nothing before it must gives the bits of the emulation, at every step") {
  cuda_emulated::Device emulated;
  cuda_emulated::StandIn api;
  cuda::Gpu gpu("cuda", cuda_emulated::kernel_table(), api, 0, {});
  Fixture expected(config_of_steps(), 1, nullptr, &emulated), got(config_of_steps(), 1, nullptr, &gpu);
  for (std::int64_t i = 0; i < 4; ++i) {
    INFO("step " << i);
    const train::StepReport a = expected.step(i), b = got.step(i);
    CHECK(b.loss == a.loss);
    CHECK(b.grad_norm == a.grad_norm);
    CHECK(b.lr == a.lr);
    CHECK(b.valid_tokens == a.valid_tokens);
    CHECK(got.bits() == expected.bits());
  }
  CHECK(api.calls["launch"] == 3);
  CHECK(api.calls["instantiate"] == 1);
  const train::Evaluation a = expected.training().evaluate(&expected.data(), 3), b = got.training().evaluate(&got.data(), 3);
  CHECK(b.loss == a.loss);
  CHECK(b.valid_tokens == a.valid_tokens);
}

TEST_CASE("training on the emulated GPU follows the CPU in f32") {
  train::Config config = config_of_steps();
  config.precision.compute = "f32";
  cuda_emulated::Device emulated;
  Fixture cpu(config), gpu(config, 1, nullptr, &emulated);
  for (std::int64_t i = 0; i < 3; ++i) CHECK(gpu.step(i).loss == Approx(cpu.step(i).loss).epsilon(2e-5));
}

TEST_CASE("training has the same bits in twenty orders of a GPU's threads") {
  // Blocks and warps of several kinds in every kernel, and sizes that fill none of them.
  train::Config llama = config_of_steps();
  for (const auto& [key, value] : {std::pair{"width", 72}, {"mlp_width", 90}, {"context", 40}, {"vocab", 131}}) llama.model[key] = value;
  llama.train.context = 40;
  llama.model["qk_norm"] = true;
  train::Config gpt2 = llama;
  for (const auto& [key, value] : {std::pair{"norm", "layernorm"}, {"position", "learned"}, {"mlp", "gelu"}}) gpt2.model[key] = value;
  gpt2.model["qk_norm"] = false;
  gpt2.model["bias"] = gpt2.model["tied_embeddings"] = true;
  gpt2.model["dropout"] = 0.1;
#ifdef __SANITIZE_ADDRESS__
  constexpr std::uint64_t kOrders = 3;  // they go through the same memory, eight times as slowly
#else
  constexpr std::uint64_t kOrders = 20;
#endif
  for (const train::Config& config : {llama, gpt2}) {
    std::string first;
    for (std::uint64_t order = 0; order < kOrders; ++order) {
      INFO(config.model.at("norm") << ", order " << order);
      cuda_emulated::Device device;
      device.order = order;
      Fixture training(config, 1, nullptr, &device);
      training.step(0);
      if (order == 0) first = training.bits();
      CHECK(training.bits() == first);
    }
  }
}

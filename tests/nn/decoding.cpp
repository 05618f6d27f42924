// Decoding with a key/value cache against the whole forward pass.

#include "tests/catch.h"
#include "tests/nn/tiny.h"

using namespace oxrse;
using namespace oxrse::nn;
using namespace oxrse::nn::testing;

namespace {

/// -log softmax(logits)[target]
double loss_of(ConstTensor logits, std::int32_t target) {
  double sum = 0;
  for (std::int64_t v = 0; v < logits.size(1); ++v) sum += std::exp(logits.data<double>()[v]);
  return std::log(sum) - logits.data<double>()[target];
}

}  // namespace

TEST_CASE("token by token, a cache gives the losses of the whole sequence", "[nn]") {
  Setup setup{.model = GENERATE(gpt2(), llama(), qwen3()), .rows = 1, .length = 8};
  setup.model.window = GENERATE(0, 3);
  Tiny tiny(setup);
  const double whole = tiny.evaluate();

  const std::int64_t prompt = GENERATE(1, 3);
  const Batch all = tiny.batch();
  const Tensor logits = tiny.context().arena->make(DType::F64, {1, setup.model.vocab}, Memory::Workspace);
  DecodeState state = tiny.model().start(tiny.pass(all));
  // Only positions after the prompt have their logits read, so the whole pass ignores the others too.
  double expected = whole;
  {
    Tiny head(setup);
    for (std::size_t i = static_cast<std::size_t>(prompt) - 1; i < head.targets.size(); ++i) head.targets[i] = -1;
    expected -= head.evaluate();
  }
  double decoded = 0;
  for (std::int64_t at = 0; at < setup.length;) {
    const std::int64_t next = at == 0 ? prompt : at + 1;
    const Batch batch{.rows = 1,
                      .length = next - at,
                      .tokens = all.tokens.slice(0, at, next),
                      .targets = {},
                      .positions = all.positions.slice(0, at, next),
                      .document_start = {}};
    tiny.model().decode(tiny.pass(batch), state, logits);
    at = next;
    const std::int32_t target = tiny.targets[static_cast<std::size_t>(at - 1)];
    if (target >= 0) decoded += loss_of(logits, target);
  }
  CHECK(state.length == setup.length);
  CHECK(std::abs(decoded - expected) <= 1e-12 * expected);
}

TEST_CASE("decoding past the context is refused", "[nn]") {
  Setup setup{.model = gpt2(), .rows = 1, .length = 9};
  Tiny tiny(setup);
  const Batch all = tiny.batch();
  const Tensor logits = tiny.context().arena->make(DType::F64, {1, setup.model.vocab}, Memory::Workspace);
  DecodeState state = tiny.model().start(tiny.pass(all));
  tiny.model().decode(tiny.pass(all), state, logits);
  const Batch one{.rows = 1,
                  .length = 1,
                  .tokens = all.tokens.slice(0, 0, 1),
                  .targets = {},
                  .positions = all.positions.slice(0, 0, 1),
                  .document_start = {}};
  CHECK_THROWS_WITH(tiny.model().decode(tiny.pass(one), state, logits), Catch::Matchers::Contains("context is 9"));
}

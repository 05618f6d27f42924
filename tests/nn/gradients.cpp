// The gradient of whole tiny models against central differences in f64.

#include "tests/catch.h"
#include "tests/nn/tiny.h"

using namespace oxrse;
using namespace oxrse::nn;
using namespace oxrse::nn::testing;

namespace {

/// Largest error of the gradient of `checked` elements of every parameter, relative to the parameter's largest gradient.
double worst_error(Tiny& tiny, std::int64_t checked = 12) {
  tiny.train();
  std::vector<std::vector<double>> analytic;
  for (const ConstTensor& g : tiny.gradients().sums()) analytic.emplace_back(g.data<double>(), g.data<double>() + g.count());
  double worst = 0;
  const auto& parameters = tiny.store().parameters();
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const Parameter& p = parameters[k];
    double scale = 0;
    for (const double g : analytic[k]) scale = std::max(scale, std::abs(g));
    CHECK(scale > 0);
    for (std::int64_t j = 0; j < std::min(checked, p.count()); ++j) {
      const std::int64_t i = (j * 7919 + 3) % p.count();
      const double value = Tiny::get(p, i), h = 1e-5;
      Tiny::set(p, i, value + h);
      const double up = tiny.train();
      Tiny::set(p, i, value - h);
      const double down = tiny.train();
      Tiny::set(p, i, value);
      const double error = std::abs((up - down) / (2 * h) - analytic[k][static_cast<std::size_t>(i)]) / scale;
      INFO(p.name << "[" << i << "]");
      CHECK(error <= 1e-6);
      worst = std::max(worst, error);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("gradients of whole models agree with central differences", "[nn]") {
  const auto name = GENERATE(as<std::string>(), "gpt2", "llama", "qwen3", "window", "dropout", "no positions", "qkv bias");
  Setup setup{.model = llama()};
  if (name == "gpt2") setup.model = gpt2();
  if (name == "qwen3") setup.model = qwen3();
  if (name == "window") setup.model.window = 3;
  if (name == "dropout") {
    setup.model = gpt2();
    setup.model.dropout = 0.3;
  }
  if (name == "no positions") setup.model.position = "none";
  if (name == "qkv bias") setup.model.qkv_bias = true;
  CAPTURE(name);
  Tiny tiny(setup);
  CHECK(worst_error(tiny) <= 1e-6);
}

TEST_CASE("sequences of one token have gradients everywhere but in queries, keys and later positions", "[nn]") {
  Tiny tiny({.model = gpt2(), .rows = 3, .length = 1});
  tiny.targets = {3, -1, 5};
  CHECK(tiny.train() > 0);
  const auto largest = [](ConstTensor g) {
    double most = 0;
    for (std::int64_t i = 0; i < g.count(); ++i) most = std::max(most, std::abs(g.data<double>()[i]));
    return most;
  };
  const auto& parameters = tiny.store().parameters();
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const ConstTensor g = tiny.gradients().sums()[k];
    INFO(parameters[k].name);
    CHECK(largest(g) > 0);
    if (parameters[k].name == "blocks.0.attention.qkv.weight") CHECK(largest(g.slice(0, 0, 24)) <= 1e-15);
    if (parameters[k].name == "position.weight") CHECK(largest(g.slice(0, 1, 9)) == 0);
  }
}

TEST_CASE("gradients of packed documents agree with central differences", "[nn]") {
  Tiny tiny({.model = qwen3()});
  tiny.document_start = {0, 0, 0, 3, 3, 3, 3, 0, 1, 1, 1, 1, 1, 6};
  tiny.positions = {0, 1, 2, 0, 1, 2, 3, 0, 0, 1, 2, 3, 4, 0};
  CHECK(worst_error(tiny) <= 1e-6);
}

TEST_CASE("a document does not feel another one in its row", "[nn]") {
  Setup setup{.model = llama(), .rows = 1, .length = 9};
  const auto losses_of_second = [&](std::int32_t first_token) {
    Tiny tiny(setup);
    tiny.document_start = {0, 0, 0, 0, 4, 4, 4, 4, 4};
    tiny.positions = {0, 1, 2, 3, 0, 1, 2, 3, 4};
    tiny.tokens[1] = first_token;
    for (std::size_t i = 0; i < 4; ++i) tiny.targets[i] = -1;
    return tiny.evaluate();
  };
  CHECK(losses_of_second(3) == losses_of_second(8));
}

TEST_CASE("recomputation changes memory and not one bit", "[nn]") {
  const auto model = GENERATE(0, 1, 2);
  Setup setup{.model = model == 0 ? gpt2() : model == 1 ? llama() : qwen3()};
  setup.model.dropout = model == 0 ? 0.2 : 0;
  setup.compute = GENERATE(DType::F64, DType::F32);
  setup.threads = GENERATE(1, 2);
  Tiny kept(setup);
  const double loss = kept.train();
  const std::int64_t kept_activations = kept.context().arena->peak()[Memory::Activations];
  for (const Recompute recompute : {Recompute::Attention, Recompute::Block}) {
    setup.recompute = recompute;
    Tiny again(setup);
    CHECK(again.train() == loss);
    CHECK(again.context().arena->peak()[Memory::Activations] < kept_activations);
    for (std::size_t k = 0; k < kept.gradients().sums().size(); ++k) {
      const ConstTensor a = kept.gradients().sums()[k], b = again.gradients().sums()[k];
      INFO(kept.store().parameters()[k].name);
      CHECK(std::equal(a.address(), a.address() + a.bytes(), b.address()));
    }
  }
}

TEST_CASE("evaluation gives the loss of training without dropout", "[nn]") {
  Setup setup{.model = GENERATE(gpt2(), qwen3())};
  Tiny tiny(setup);
  CHECK(tiny.evaluate() == tiny.train());
  setup.model.dropout = 0.5;
  Tiny dropping(setup);
  CHECK(dropping.evaluate() == tiny.evaluate());
  CHECK(dropping.train() != tiny.train());
}

TEST_CASE("ignored targets give no loss and no gradient", "[nn]") {
  Tiny tiny({.model = gpt2()});
  for (std::int32_t& t : tiny.targets) t = -1;
  CHECK(tiny.train() == 0);
  for (const ConstTensor& g : tiny.gradients().sums()) {
    for (std::int64_t i = 0; i < g.count(); ++i) REQUIRE(g.data<double>()[i] == 0);
  }
}

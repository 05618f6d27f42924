// Sums over micro-batches: the pairwise tree, the sequential order, and how much room they take.

#include <vector>

#include "tests/catch.h"
#include "tests/nn/tiny.h"

using namespace oxrse;
using namespace oxrse::nn;

namespace {

/// A store of two parameters, one of an odd size, and values whose float sum depends on the order.
struct Fixture {
  explicit Fixture(Mode mode = Mode::Run)
      : arena(mode == Mode::Plan ? Arena::planned() : Arena::allocated(1 << 20)),
        context{.mode = mode, .cpu = {}, .arena = &arena, .log = nullptr} {
    a = store.add("a", {3, 7}, {});
    b = store.add("b", {5}, {});
    store.allocate(context, DType::F32);
  }
  static float value(std::int64_t micro_batch, std::int64_t i) {
    return static_cast<float>(RandomStream(1, 2).normal(static_cast<std::uint64_t>(micro_batch * 100 + i)));
  }
  void add(Gradients& gradients, ParameterId id, std::int64_t micro_batch) {
    const Gradients::Target target = gradients.target(id);
    for (std::int64_t i = 0; i < target.sum.count(); ++i) {
      float& sum = target.sum.data<float>()[i];
      sum = target.write == Write::Add ? sum + value(micro_batch, i) : value(micro_batch, i);
    }
  }
  Arena arena;
  Context context;
  ParameterStore store;
  ParameterId a, b;
};

float tree(std::int64_t begin, std::int64_t end, std::int64_t i) {
  if (end - begin == 1) return Fixture::value(begin, i);
  std::int64_t half = 1;
  while (half * 2 < end - begin) half *= 2;
  return tree(begin, begin + half, i) + tree(begin + half, end, i);
}

}  // namespace

TEST_CASE("pairwise accumulation adds as a tree over the micro-batches", "[nn]") {
  const std::int64_t micro_batches = GENERATE(1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 33);
  Fixture f;
  Gradients gradients;
  gradients.allocate(f.context, f.store, {0, micro_batches, micro_batches}, Gradients::Order::Pairwise);
  for (int step = 0; step < 2; ++step) {
    gradients.begin_step();
    for (std::int64_t m = 0; m < micro_batches; ++m) {
      f.add(gradients, f.a, m);
      f.add(gradients, f.b, m);
      gradients.end_micro_batch(f.context);
    }
    gradients.end_step(f.context);
    for (const ConstTensor& sum : gradients.sums()) {
      for (std::int64_t i = 0; i < sum.count(); ++i) CHECK(sum.data<float>()[i] == tree(0, micro_batches, i));
    }
  }
}

TEST_CASE("sequential accumulation adds one after the other in one buffer", "[nn]") {
  Fixture f;
  Gradients gradients;
  gradients.allocate(f.context, f.store, {0, 13, 13}, Gradients::Order::Sequential);
  gradients.begin_step();
  for (std::int64_t m = 0; m < 13; ++m) {
    f.add(gradients, f.a, m);
    f.add(gradients, f.b, m);
    gradients.end_micro_batch(f.context);
  }
  gradients.end_step(f.context);
  bool differs = false;
  for (std::int64_t i = 0; i < 21; ++i) {
    float sum = 0;
    for (std::int64_t m = 0; m < 13; ++m) sum += Fixture::value(m, i);
    CHECK(gradients.sums()[0].data<float>()[i] == sum);
    differs = differs || sum != tree(0, 13, i);
  }
  CHECK(differs);
}

TEST_CASE("pairwise accumulation takes a buffer more for every doubling", "[nn]") {
  const auto buffers = [](std::int64_t micro_batches) {
    Fixture f(Mode::Plan);
    Gradients gradients;
    gradients.allocate(f.context, f.store, {0, micro_batches, micro_batches}, Gradients::Order::Pairwise);
    return f.arena.use()[Memory::Gradients] / (3 * 64);  // 21 floats take two cache lines, 5 one
  };
  CHECK(buffers(1) == 1);
  CHECK(buffers(2) == 2);
  CHECK(buffers(4) == 3);
  CHECK(buffers(64) == 7);
}

TEST_CASE("a parameter without a gradient is named", "[nn]") {
  Fixture f;
  Gradients gradients;
  gradients.allocate(f.context, f.store, {0, 1, 1}, Gradients::Order::Pairwise);
  gradients.begin_step();
  f.add(gradients, f.a, 0);
  CHECK_THROWS_WITH(gradients.end_micro_batch(f.context), Catch::Matchers::Contains("parameter b received no gradient"));
}

// The rungs of the ladders, by the cases of their ops.
#include "cuda/ladder/ladder.h"

#include "tests/catch.h"
#include "tests/ops/attention_case.h"
#include "tests/ops/rmsnorm_case.h"

namespace oxrse::test {
namespace {

Cuda& tested() { return dynamic_cast<Cuda&>(*device_under_test().device); }
const cuda::Ladders& ladders() { return *tested().kernels->ladders; }

std::map<std::string, std::vector<std::byte>> bits(const OpCase& c, const Setting& setting) {
  Run run(c.inputs, setting);
  c.forward(run);
  if (c.backward) c.backward(run);
  return run.bits();
}

/// Whether three orders of threads and blocks give the same bits.
bool repeats(const OpCase& c, DType type) {
  const auto one = bits(c, {.type = type});
  return one == bits(c, {.type = type, .threads = 2}) && one == bits(c, {.type = type, .threads = 3});
}

/// A real GPU may repeat by chance what the emulation's shuffled orders never do.
void check_repeats(const OpCase& c, DType type, bool deterministic) {
  const bool same = repeats(c, type);
  INFO(c.name);
  if (deterministic) CHECK(same);
  if (!deterministic && !tested().has_clock()) CHECK_FALSE(same);
}

/// A tile less one, one and a bit of the next; more keys than queries; grouped heads, windows and documents; both widths of the rungs.
const AttentionShape kShapes[] = {{.b = 2, .t = 1, .s = 1, .h = 2, .k = 2, .d = 24},
                                  {.b = 2, .t = 33, .s = 33, .h = 3, .k = 1, .d = 24},
                                  {.b = 1, .t = 129, .s = 129, .h = 1, .k = 1, .d = 64},
                                  {.b = 1, .t = 5, .s = 140, .h = 2, .k = 1, .d = 80},
                                  {.b = 1, .t = 1, .s = 77, .h = 4, .k = 2, .d = 128},
                                  {.b = 1, .t = 63, .s = 90, .h = 2, .k = 1, .d = 16, .window = 30},
                                  {.b = 2, .t = 70, .s = 80, .h = 2, .k = 1, .d = 16, .window = 20, .documents = true}};

/// The formula of the forward pass.
struct NaiveForward {
  AttentionShape shape;

  template <class S>
  Named<S> operator()(const Named<S>& in) const {
    Named<S> all = NaiveAttention{shape}(in);
    return {{"o", all.at("o")}, {"lse", all.at("lse")}};
  }
};

}  // namespace

TEST_CASE("ladder: every rung of RMSNorm's backward pass, by the ratio rule") {
  for (const auto& rung : ladders().rmsnorm_backward) {
    INFO(rung.name);
    const cuda::RungInUse<ops::RmsNorm::Backward> in_use(tested(), rung);
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 7}, {33, 48}, {70, 211}, {3, 1025}}) {
      const OpCase c = rmsnorm_case({rows, columns});
      check_f32(c);
      check_ratio(c, rmsnorm_formula(static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)));
      check_strides(c);
      CHECK(repeats(rmsnorm_case({1, columns}), DType::BF16));
    }
    const OpCase heads = rmsnorm_case({5, 12, 24});
    check_ratio(heads, rmsnorm_formula(60, 24));
    check_add(heads, {"dx", "dw"});
    check_repeats(rmsnorm_case({200, 48}), DType::F32, rung.deterministic);
  }
}

TEST_CASE("ladder: every rung of attention's forward pass, by the ratio rule") {
  for (const auto& rung : ladders().attention_forward) {
    INFO(rung.name);
    const cuda::RungInUse<ops::Attention> in_use(tested(), rung);
    for (const AttentionShape& shape : kShapes) {
      OpCase c = attention_case(shape);
      c.backward = {};
      check_ratio(c, NaiveForward{shape});
      check_f32(c);
      check_repeats(c, DType::BF16, rung.deterministic);
      CHECK(bits(c, {.type = DType::BF16}) == bits(c, {.type = DType::BF16, .threads = 2, .gap = 5}));
      CHECK(bits(c, {.type = DType::BF16}) == bits(c, {.type = DType::BF16, .gap = 64 - shape.d % 64, .aligned = true}));
    }
  }
}

TEST_CASE("ladder: queries that see nothing give zeros on every rung of attention") {
  OpCase c = attention_case({.b = 1, .t = 100, .s = 30, .h = 1, .k = 1, .d = 16});  // the first 70 stand before every key
  c.backward = {};
  for (const auto& rung : ladders().attention_forward) {
    INFO(rung.name);
    const cuda::RungInUse<ops::Attention> in_use(tested(), rung);
    const Arrays results = execute(c, {.type = DType::BF16});
    const Values &o = results.at("o").values, &lse = results.at("lse").values;
    CHECK(std::all_of(lse.begin(), lse.begin() + 70, [](double x) { return x == std::numeric_limits<double>::infinity(); }));
    CHECK(std::all_of(lse.begin() + 70, lse.end(), [](double x) { return std::isfinite(x); }));
    CHECK(std::all_of(o.begin(), o.begin() + 70 * 16, [](double x) { return x == 0; }));
    CHECK(std::all_of(o.begin() + 70 * 16, o.end(), [](double x) { return std::isfinite(x) && x != 0; }));
  }
}

TEST_CASE("ladder: a rung is in use while its scope lasts, the last one is the engine's") {
  const OpCase c = attention_case({.b = 1, .t = 33, .s = 33, .h = 2, .k = 1, .d = 24});
  const auto launched = [&] {
    std::vector<LaunchRecord> records;
    tested().launches = &records;
    Run run(c.inputs, {.type = DType::BF16});
    c.forward(run);
    run.results();
    tested().launches = nullptr;
    return records.empty() ? "" : records[0].kernel;
  };
  const std::string engine = launched();
  CHECK(engine.starts_with("attention_forward<bf16"));
  for (const auto& rung : ladders().attention_forward) {
    INFO(rung.name);
    const cuda::RungInUse<ops::Attention> in_use(tested(), rung);
    CHECK((launched() == engine) == (rung.name == ladders().attention_forward.back().name));
  }
  CHECK(launched() == engine);
}

TEST_CASE("ladder: heads too wide for the early rungs are refused, not cut") {
  const OpCase c = attention_case({.b = 1, .t = 2, .s = 2, .h = 1, .k = 1, .d = 130});
  const cuda::RungInUse<ops::Attention> in_use(tested(), ladders().attention_forward.front());
  check_error([&] { execute(c, {.type = DType::BF16}); }, {"width up to 128, got 130"});
}

}  // namespace oxrse::test

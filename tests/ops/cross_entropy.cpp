#include "engine/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/catch.h"
#include "tests/ops/harness.h"
#include "tests/ops/sparse_memory.h"

using namespace oxrse;
using namespace oxrse::test;
using ops::CrossEntropy;

namespace {

/// Every third row is ignored.
Array targets(std::int64_t rows, std::int64_t vocab) {
  Array t = integers({rows}, 9, vocab);
  for (std::size_t n = 2; n < t.values.size(); n += 3) t.values[n] = -1;
  return t;
}

/// The forward pass alone; `dlogits` checked as the gradient of the sum of losses times `scale`.
OpCase entropy_case(std::int64_t rows, std::int64_t columns, std::int64_t vocab, double scale = 1, double shift = 0) {
  OpCase c{fmt::format("cross_entropy N={} V={} vocab={}", rows, columns, vocab), {}, {}, {}};
  c.inputs["logits"] = normal({rows, columns}, 1, 2, shift);
  c.inputs["targets"] = targets(rows, vocab);
  c.inputs["dloss"] = numbers({rows}, Values(static_cast<std::size_t>(rows), scale));
  c.forward = [=](Run& run) {
    run.run(CrossEntropy{.loss = run.out("loss", run.accumulator(), {rows}),
                         .dlogits = run.rows_out("dlogits", {rows, columns}),
                         .logits = run.rows_in("logits"),
                         .targets = run.in("targets", DType::I32),
                         .vocab = vocab,
                         .scale = scale});
  };
  return c;
}

struct Naive {
  std::int64_t rows, columns, vocab;
  double scale = 1;

  template <class S>
  std::map<std::string, std::vector<S>> operator()(const std::map<std::string, std::vector<S>>& in) const {
    using std::exp;
    using std::log;
    std::map<std::string, std::vector<S>> out;
    for (std::int64_t n = 0; n < rows; ++n) {
      const auto logit = [&](std::int64_t v) { return in.at("logits")[static_cast<std::size_t>(n * columns + v)]; };
      const auto target = static_cast<std::int64_t>(static_cast<double>(in.at("targets")[static_cast<std::size_t>(n)]));
      S maximum = logit(0), sum = 0;
      for (std::int64_t v = 0; v < vocab; ++v) maximum = maximum < logit(v) ? logit(v) : maximum;
      for (std::int64_t v = 0; v < vocab; ++v) sum += exp(logit(v) - maximum);
      out["loss"].push_back(target < 0 ? S(0) : log(sum) + maximum - logit(target));
      for (std::int64_t v = 0; v < columns; ++v) {
        if (target < 0 || v >= vocab) {
          out["dlogits"].push_back(S(0));
        } else {
          out["dlogits"].push_back(S(scale) * (exp(logit(v) - maximum) / sum - S(v == target ? 1 : 0)));
        }
      }
    }
    return out;
  }
};

/// The results of one row of logits in f32.
Arrays row_of(Values logits, std::int64_t target, std::int64_t vocab) {
  const auto columns = static_cast<std::int64_t>(logits.size());
  OpCase c = entropy_case(1, columns, vocab);
  c.inputs["logits"] = numbers({1, columns}, std::move(logits));
  c.inputs["targets"] = numbers({1}, {static_cast<double>(target)});
  return execute(c, {.type = DType::F32});
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("cross entropy: gradients, types, threads, strides and in place") {
  for (const auto& [rows, columns, vocab] : {std::tuple{1, 1, 1}, {7, 211, 211}, {9, 256, 211}, {4, 1000, 997}}) {
    const OpCase c = entropy_case(rows, columns, vocab, 3);
    check_case(c);
    check_gradients(c);
    check_in_place(c, {{"dlogits", "logits"}});
  }
  for (const auto& [columns, vocab] : {std::pair{8003, 8003}, {50304, 50257}}) {
    const OpCase c = entropy_case(4, columns, vocab);
    check_f32(c);
    check_threads(c);
    check_in_place(c, {{"dlogits", "logits"}});
  }
}

TEST_CASE("cross entropy: against the formula") {
  for (const auto& [rows, columns, vocab] : {std::tuple{7, 211, 211}, {9, 256, 211}, {3, 8003, 8003}}) {
    const OpCase c = entropy_case(rows, columns, vocab, 2);
    check_formula(c, Naive{rows, columns, vocab, 2}(inputs_as<double>(c)));
    check_ratio(c, Naive{rows, columns, vocab, 2});
  }
}

TEST_CASE("cross entropy: padding never wins and never learns") {
  OpCase c = entropy_case(6, 1024, 1000, 1, -200);
  Values& logits = c.inputs.at("logits").values;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (i % 1024 >= 1000) logits[i] = i % 2 == 0 ? 1e4 : kInfinity;
  }
  OpCase plain = entropy_case(6, 1000, 1000);
  Values& kept = plain.inputs.at("logits").values;
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = logits[i / 1000 * 1024 + i % 1000];
  plain.inputs["targets"] = c.inputs.at("targets");
  for (const DType type : {DType::F32, DType::BF16, DType::F16}) {
    INFO(name_of(type));
    const Arrays padded = execute(c, {.type = type}), expected = execute(plain, {.type = type});
    CHECK(padded.at("loss").values == expected.at("loss").values);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double e = i % 1024 < 1000 ? expected.at("dlogits").values[i / 1024 * 1000 + i % 1024] : 0;
      if (padded.at("dlogits").values[i] != e) FAIL("element " << i);
    }
  }
}

TEST_CASE("cross entropy: a margin of 12 leaves a loss that short types can tell from 0") {
  for (const DType type : {DType::F32, DType::BF16, DType::F16}) {
    INFO(name_of(type));
    OpCase c = entropy_case(1, 1000, 1000);
    Values logits(1000, 0.0);
    logits[7] = 12;
    c.inputs["logits"] = numbers({1, 1000}, logits);
    c.inputs["targets"] = numbers({1}, {7});
    const Arrays results = execute(c, {.type = type});
    const double loss = std::log1p(999 * std::exp(-12.0)), share = std::exp(-12.0 - loss);
    const double digits = type == DType::F32 ? 3e-4 : type == DType::BF16 ? 0x1p-8 : 0.01;  // fp16: below its normal numbers
    CHECK(results.at("loss").values[0] == Approx(loss).epsilon(3e-4));
    CHECK(results.at("dlogits").values[6] == Approx(share).epsilon(digits));
    CHECK(results.at("dlogits").values[7] == Approx(-999 * share).epsilon(digits));
  }
}

TEST_CASE("cross entropy: extreme logits") {
  Values one_large(50, 0.0);
  one_large[7] = 1e4;
  const Arrays won = row_of(one_large, 7, 50);
  CHECK(won.at("loss").values == Values{0});
  CHECK(won.at("dlogits").values == Values(50, 0.0));
  const Arrays lost = row_of(one_large, 3, 50);
  CHECK(lost.at("loss").values == Values{1e4});
  CHECK(lost.at("dlogits").values[3] == -1);
  CHECK(lost.at("dlogits").values[7] == 1);

  // Differences of large logits keep their digits.
  const Arrays close = row_of({1e4, 1e4 - 1}, 1, 2);
  CHECK(close.at("loss").values[0] == Approx(1 + std::log1p(std::exp(-1))).epsilon(1e-6));
  CHECK(close.at("dlogits").values[0] == Approx(1 / (1 + std::exp(-1))).epsilon(1e-6));

  for (const double equal : {0.0, -1e4, 1e4, -kInfinity}) {
    const Arrays results = row_of(Values(1000, equal), 5, 1000);
    CHECK(results.at("loss").values[0] == Approx(std::log(1000.0)));
    CHECK(results.at("dlogits").values[4] == Approx(1e-3));
    CHECK(results.at("dlogits").values[5] == Approx(1e-3 - 1));
  }
  Values some(33, -kInfinity);
  some[3] = 1;
  some[4] = 2;
  const Arrays results = row_of(some, 4, 33);
  CHECK(results.at("loss").values[0] == Approx(std::log1p(std::exp(-1))));
  CHECK(results.at("dlogits").values[0] == 0);

  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity}) {
    CHECK_FALSE(std::isfinite(row_of({0, bad, 0}, 0, 3).at("loss").values[0]));
    CHECK_FALSE(std::isfinite(row_of(Values(3, bad), 0, 3).at("loss").values[0]));
  }
}

TEST_CASE("cross entropy: ignored rows, no rows, no gradient") {
  OpCase c = entropy_case(5, 40, 40);
  std::ranges::fill(c.inputs.at("targets").values, -1.0);
  std::ranges::fill(c.inputs.at("logits").values, std::numeric_limits<double>::quiet_NaN());
  for (const auto& [name, array] : execute(c, {.type = DType::BF16})) {
    CHECK(std::ranges::all_of(array.values, [](double x) { return x == 0; }));
  }
  for (const DType type : {DType::F64, DType::F32}) {
    for (const auto& [name, array] : execute(entropy_case(0, 40, 40), {.type = type})) CHECK(array.values.empty());
  }

  const OpCase both = entropy_case(5, 40, 33);
  OpCase loss = both;
  loss.forward = [](Run& run) {
    run.run(CrossEntropy{.loss = run.out("loss", run.accumulator(), {5}),
                         .dlogits = {},
                         .logits = run.in("logits"),
                         .targets = run.in("targets", DType::I32),
                         .vocab = 33});
  };
  CHECK(execute(loss, {}).at("loss").values == execute(both, {}).at("loss").values);
}

TEST_CASE("cross entropy: a target that is no token stops before anything is written") {
  for (const int bad : {-2, 33, 1 << 30}) {
    OpCase c = entropy_case(5, 40, 33);
    c.inputs.at("targets").values[3] = bad;
    Run run(c.inputs, {});
    check_error([&] { c.forward(run); }, {"cross_entropy", "row 3", std::to_string(bad), "[0, 33)"});
    check_error([&] { static_cast<void>(run.results()); }, {"not written"});
  }
}

TEST_CASE("cross entropy: errors of shape") {
  const auto tensor = [](DType type, std::initializer_list<std::int64_t> sizes) { return Tensor(nullptr, type, sizes); };
  const CrossEntropy good{.loss = tensor(DType::F32, {3}),
                          .dlogits = tensor(DType::BF16, {3, 8}),
                          .logits = tensor(DType::BF16, {3, 8}),
                          .targets = tensor(DType::I32, {3}),
                          .vocab = 7};
  CHECK(check(good).bytes == 2 * 24 * 2 + 3 * 4 * 2);
  CHECK(shape(good) == "N=3 V=8");
  CrossEntropy bad = good;
  bad.vocab = 9;
  check_error([&] { check(bad); }, {"cross_entropy", "vocab", "[1, 8]", "9"});
  bad = good;
  bad.loss = tensor(DType::BF16, {3});
  check_error([&] { check(bad); }, {"cross_entropy", "loss", "f32(3)", "bf16(3)"});
}

TEST_CASE("cross entropy: offsets past 2^31") {
  const std::int64_t stride = (std::int64_t{1} << 31) + 3;
  const SparseMemory memory((stride + 5) * 4);
  const Tensor logits = memory.view(DType::F32, {2, stride}, 5);
  Guarded loss(DType::F32, {2}), targets(DType::I32, {2});
  targets.set(Values{1, 2});
  for (std::int64_t v = 0; v < 5; ++v) {
    logits.data<float>()[v] = 0;
    logits.data<float>()[stride + v] = static_cast<float>(v);
  }
  Context context = context_for(DType::F32);
  ops::run(context, CrossEntropy{.loss = loss.view(), .dlogits = logits, .logits = logits, .targets = targets.view(), .vocab = 5});
  const double lse = std::log(1 + std::exp(1) + std::exp(2) + std::exp(3) + std::exp(4));
  CHECK(loss.values()[0] == Approx(std::log(5)));
  CHECK(loss.values()[1] == Approx(lse - 2));
  CHECK(logits.data<float>()[stride + 4] == Approx(std::exp(4 - lse)));
  CHECK(logits.data<float>()[stride + 2] == Approx(std::exp(2 - lse) - 1));
}

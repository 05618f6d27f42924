#include "engine/ops/linear.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/ops/activation.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"

using namespace oxrse;
using namespace oxrse::test;
using ops::Linear;

namespace {

struct Shape {
  std::int64_t n, i, o;
  bool bias = true, residual = true;
};

OpCase linear_case(const Shape& s) {
  OpCase c{fmt::format("linear N={} I={} O={}{}{}", s.n, s.i, s.o, s.bias ? " bias" : "", s.residual ? " residual" : ""), {}, {}, {}};
  c.inputs["x"] = normal({s.n, s.i}, 1);
  c.inputs["w"] = normal({s.o, s.i}, 2, 0.3);
  if (s.bias) c.inputs["bias"] = normal({s.o}, 3);
  if (s.residual) c.inputs["residual"] = normal({s.n, s.o}, 4);
  c.inputs["dy"] = normal({s.n, s.o}, 5);
  c.forward = [s](Run& run) {
    run.run(Linear{.y = run.rows_out("y", {s.n, s.o}),
                   .x = run.rows_in("x"),
                   .w = run.in("w"),
                   .bias = run.in("bias"),
                   .residual = run.rows_in("residual")});
  };
  c.backward = [s](Run& run) {
    run.run(Linear::Backward{.dx = run.sum_rows_out("dx", {s.n, s.i}),
                             .dw = run.sum_out("dw", run.accumulator(), {s.o, s.i}),
                             .dbias = s.bias ? run.sum_out("dbias", run.accumulator(), {s.o}) : Tensor{},
                             .dy = run.rows_in("dy"),
                             .x = run.rows_in("x"),
                             .w = run.in("w"),
                             .to_dx = run.write(),
                             .to_dw = run.write()});
  };
  return c;
}

/// The formulas, one number after the other.
struct Naive {
  Shape s;

  template <class S>
  std::map<std::string, std::vector<S>> operator()(const std::map<std::string, std::vector<S>>& in) const {
    const auto at = [&](const char* name, std::int64_t i) { return in.at(name)[static_cast<std::size_t>(i)]; };
    std::map<std::string, std::vector<S>> out;
    for (std::int64_t n = 0; n < s.n; ++n) {
      for (std::int64_t o = 0; o < s.o; ++o) {
        S sum = 0;
        for (std::int64_t i = 0; i < s.i; ++i) sum += at("x", n * s.i + i) * at("w", o * s.i + i);
        if (s.bias) sum += at("bias", o);
        if (s.residual) sum += at("residual", n * s.o + o);
        out["y"].push_back(sum);
      }
      for (std::int64_t i = 0; i < s.i; ++i) {
        S sum = 0;
        for (std::int64_t o = 0; o < s.o; ++o) sum += at("dy", n * s.o + o) * at("w", o * s.i + i);
        out["dx"].push_back(sum);
      }
    }
    for (std::int64_t o = 0; o < s.o; ++o) {
      S sum_bias = 0;
      for (std::int64_t n = 0; n < s.n; ++n) sum_bias += at("dy", n * s.o + o);
      if (s.bias) out["dbias"].push_back(sum_bias);
      for (std::int64_t i = 0; i < s.i; ++i) {
        S sum = 0;
        for (std::int64_t n = 0; n < s.n; ++n) sum += at("dy", n * s.o + o) * at("x", n * s.i + i);
        out["dw"].push_back(sum);
      }
    }
    return out;
  }
};

/// Rows with gaps give the same numbers in the types a library multiplies, which may add up in another order then.
void check_rows_apart(const OpCase& c) {
  for (const DType type : {DType::F32, DType::BF16}) {
    const Arrays expected = execute(c, {.type = type});
    const double tolerance = type == DType::F32 ? 1e-4 : 0.1;
    for (const auto& [name, array] : execute(c, {.type = type, .gap = 5})) {
      INFO(c.name << ": " << name << " in " << name_of(type));
      const Values& e = expected.at(name).values;
      const auto close = [&](double a, double b) { return std::abs(a - b) <= tolerance; };
      CHECK(std::equal(array.values.begin(), array.values.end(), e.begin(), e.end(), close));
    }
  }
}

/// A layer with GELU on both sides, as an MLP is: hidden = GELU(before), y = hidden w^T + bias, gelu = GELU(y). In one op or in several.
OpCase gelu_case(const Shape& s, bool fused) {
  OpCase c{fmt::format("linear with gelu N={} I={} O={}", s.n, s.i, s.o), {}, {}, {}};
  c.inputs["before"] = normal({s.n, s.i}, 1, 1.5);
  c.inputs["w"] = normal({s.o, s.i}, 2, 0.3);
  if (s.bias) c.inputs["bias"] = normal({s.o}, 3);
  c.inputs["dy"] = normal({s.n, s.o}, 5);
  c.forward = [=](Run& run) {
    run.run(ops::Gelu{.y = run.rows_out("hidden", {s.n, s.i}), .x = run.rows_in("before")});
    const Tensor y = run.rows_out("y", {s.n, s.o}), gelu = run.rows_out("gelu", {s.n, s.o});
    run.run(Linear{.y = y, .x = run.made("hidden"), .w = run.in("w"), .bias = run.in("bias"), .gelu = fused ? gelu : Tensor()});
    if (!fused) run.run(ops::Gelu{.y = gelu, .x = y});
  };
  c.backward = [=](Run& run) {
    const Tensor d = run.rows_out("dbefore", {s.n, s.i});
    const ConstTensor before = run.rows_in("before");
    run.run(Linear::Backward{.dx = d,
                             .dw = run.sum_out("dw", run.accumulator(), {s.o, s.i}),
                             .dy = run.rows_in("dy"),
                             .x = run.made("hidden"),
                             .w = run.in("w"),
                             .before = fused ? before : ConstTensor(),
                             .to_dw = run.write()});
    if (!fused) run.run(ops::Gelu::Backward{.dx = d, .dy = d, .x = before});
  };
  return c;
}

Named<double> values_of(const Arrays& arrays) {
  Named<double> values;
  for (const auto& [name, array] : arrays) values[name] = array.values;
  return values;
}

}  // namespace

TEST_CASE("linear: gradients, types, threads and strides") {
  for (const Shape& s : {Shape{1, 1, 1}, {1, 24, 33}, {33, 17, 5, false, false}, {129, 40, 80, true, false}, {7, 211, 64, false, true}}) {
    const OpCase c = linear_case(s);
    check_gradients(c);
    check_f32(c);
    check_threads(c);
    check_strides(c, DType::F64);
    check_rows_apart(c);
    check_add(c, {"dx", "dw", "dbias"});
  }
}

TEST_CASE("linear: against the formula") {
  for (const Shape& s : {Shape{1, 24, 33}, {33, 17, 5, false, false}, {37, 130, 65}}) {
    const OpCase c = linear_case(s);
    check_formula(c, Naive{s}(inputs_as<double>(c)));
    check_ratio(c, Naive{s});
  }
}

TEST_CASE("linear: the bits do not depend on the number of threads") {
  // Among them long sums into few results, whose sums are split, for each of y, dx and dw.
  for (const Shape& s :
       {Shape{64, 8192, 64}, {64, 64, 8192}, {8192, 64, 64}, {300, 768, 520}, {513, 129, 1025}, {1, 5000, 1}, {1, 768, 2304}}) {
    check_threads(linear_case(s));
    check_f32(linear_case(s));
  }
}

TEST_CASE("linear: y may be the residual") { check_in_place(linear_case({65, 30, 70}), {{"y", "residual"}}); }

TEST_CASE("linear: GELU beside it is as exact as GELU after it") {
  for (const Shape& s : {Shape{1, 24, 33}, {33, 17, 5, false}, {70, 64, 48}}) {
    const OpCase fused = gelu_case(s, true), apart = gelu_case(s, false);
    check_gradients(fused);
    check_f32(fused);
    check_threads(fused);
    check_strides(fused, DType::F64);
    check_add(fused, {"dw"});
    CHECK(values_of(execute(fused, {})) == values_of(execute(apart, {})));
    for (const DType type : {DType::F32, DType::BF16, DType::F16}) {
      const OpCase same = rounded_to(type, apart);
      const Named<double> exact = values_of(execute(same, {})), naive = values_of(execute(same, {.type = type}));
      check_against_naive(fused.name + " " + std::string(name_of(type)), execute(rounded_to(type, fused), {.type = type}), naive, exact);
    }
  }
}

TEST_CASE("linear: no rows give zero gradients") {
  const OpCase c = linear_case({0, 5, 7});
  const Arrays results = execute(c, {.type = DType::BF16});
  CHECK(results.at("y").values.empty());
  CHECK(results.at("dw").values == Values(35, 0.0));
  CHECK(results.at("dbias").values == Values(7, 0.0));
  check_add(c, {"dx", "dw", "dbias"});
}

TEST_CASE("linear: absent gradients are not computed") {
  for (const DType type : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    const OpCase all = linear_case({9, 6, 4});
    const Arrays expected = execute(all, {.type = type});
    for (int keep = 1; keep < 8; ++keep) {
      OpCase some = all;
      some.backward = [keep](Run& run) {
        run.run(Linear::Backward{.dx = (keep & 1) != 0 ? run.rows_out("dx", {9, 6}) : Tensor{},
                                 .dw = (keep & 2) != 0 ? run.out("dw", run.accumulator(), {4, 6}) : Tensor{},
                                 .dbias = (keep & 4) != 0 ? run.out("dbias", run.accumulator(), {4}) : Tensor{},
                                 .dy = run.rows_in("dy"),
                                 .x = (keep & 2) != 0 ? run.rows_in("x") : ConstTensor{},
                                 .w = (keep & 1) != 0 ? run.in("w") : ConstTensor{}});
      };
      for (const auto& [name, array] : execute(some, {.type = type})) CHECK(array.values == expected.at(name).values);
    }
  }
}

TEST_CASE("linear: cost and errors") {
  std::vector<float> memory(1000);
  const auto tensor = [&](std::initializer_list<std::int64_t> sizes) {
    return Tensor(reinterpret_cast<std::byte*>(memory.data()), DType::F32, sizes);
  };
  const Linear good{.y = tensor({2, 5}), .x = tensor({2, 3}), .w = tensor({5, 3}), .bias = {}, .residual = {}};
  CHECK(check(good).flops == 2 * 2 * 3 * 5);
  CHECK(check(good).bytes == 4 * (10 + 6 + 15));
  CHECK(shape(good) == "N=2 I=3 O=5");
  Linear bad = good;
  bad.w = tensor({5, 4});
  check_error([&] { check(bad); }, {"linear", "w", "f32(5, 3)", "f32(5, 4)"});
  bad = good;
  bad.residual = tensor({2, 4});
  check_error([&] { check(bad); }, {"linear", "residual", "f32(2, 5)", "f32(2, 4)"});
  Linear activated = good;
  activated.gelu = tensor({2, 5});
  CHECK(check(activated).flops == 2 * 2 * 3 * 5 + check(ops::Gelu{.y = tensor({2, 5}), .x = tensor({2, 5})}).flops);
  activated.residual = tensor({2, 5});
  check_error([&] { check(activated); }, {"linear", "gelu and residual"});
  activated.residual = {};
  activated.gelu = tensor({2, 4});
  check_error([&] { check(activated); }, {"linear", "gelu", "f32(2, 5)", "f32(2, 4)"});
  Linear::Backward added{.dx = tensor({2, 3}), .dy = tensor({2, 5}), .x = {}, .w = tensor({5, 3}), .before = tensor({2, 3})};
  CHECK_NOTHROW(check(added));
  added.to_dx = Write::Add;
  check_error([&] { check(added); }, {"linear.backward", "before", "dx"});
  Linear::Backward none{};
  none.dy = tensor({2, 5});
  check_error([&] { check(none); }, {"linear.backward", "dx", "dw", "dbias"});
}

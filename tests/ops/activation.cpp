#include "engine/ops/activation.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/harness.h"

namespace oxrse::test {
namespace {

OpCase gelu(std::int64_t rows, std::int64_t columns) {
  OpCase c;
  c.name = fmt::format("gelu N={} I={}", rows, columns);
  c.inputs = {{"x", normal({rows, columns}, 1, 2)}, {"dy", normal({rows, columns}, 2)}};
  c.forward = [=](Run& r) { r.run(ops::Gelu{.y = r.rows_out("y", {rows, columns}), .x = r.rows_in("x")}); };
  c.backward = [=](Run& r) {
    r.run(ops::Gelu::Backward{.dx = r.rows_out("dx", {rows, columns}), .dy = r.rows_in("dy"), .x = r.rows_in("x")});
  };
  return c;
}

OpCase swiglu(std::int64_t rows, std::int64_t columns) {
  OpCase c;
  c.name = fmt::format("swiglu N={} I={}", rows, columns);
  c.inputs = {{"gate", normal({rows, columns}, 1, 2)}, {"up", normal({rows, columns}, 2)}, {"dy", normal({rows, columns}, 3)}};
  c.forward = [=](Run& r) { r.run(ops::SwiGlu{.y = r.rows_out("y", {rows, columns}), .gate = r.rows_in("gate"), .up = r.rows_in("up")}); };
  c.backward = [=](Run& r) {
    r.run(ops::SwiGlu::Backward{.dgate = r.rows_out("dgate", {rows, columns}),
                                .dup = r.rows_out("dup", {rows, columns}),
                                .dy = r.rows_in("dy"),
                                .gate = r.rows_in("gate"),
                                .up = r.rows_in("up")});
  };
  return c;
}

const auto gelu_formula = []<class S>(const Named<S>& in) {
  using std::tanh;
  Named<S> out;
  const S root(0.79788456080286535588), cubic(0.044715), half(0.5), one(1), three(3);
  for (std::size_t i = 0; i < in.at("x").size(); ++i) {
    const S x = in.at("x")[i];
    const S u = tanh(root * (x + cubic * x * x * x));
    out["y"].push_back(half * x * (one + u));
    out["dx"].push_back(in.at("dy")[i] * (half * (one + u) + half * x * (one - u * u) * root * (one + three * cubic * x * x)));
  }
  return out;
};

const auto swiglu_formula = []<class S>(const Named<S>& in) {
  using std::exp;
  Named<S> out;
  const S one(1);
  for (std::size_t i = 0; i < in.at("up").size(); ++i) {
    const S gate = in.at("gate")[i], up = in.at("up")[i], dy = in.at("dy")[i];
    const S s = one / (one + exp(-gate));
    out["y"].push_back(gate * s * up);
    out["dup"].push_back(dy * gate * s);
    out["dgate"].push_back(dy * up * s * (one + gate * (one - s)));
  }
  return out;
};

Values gelu_of(const Values& x, DType type) {
  OpCase c = gelu(1, static_cast<std::int64_t>(x.size()));
  c.inputs["x"].values = x;
  c.backward = {};
  return execute(c, {.type = type}).at("y").values;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("gelu and swiglu: odd sizes") {
  for (const std::int64_t columns : {1, 7, 48, 211}) {
    for (const std::int64_t rows : {1, 33}) {
      check_case(gelu(rows, columns));
      check_case(swiglu(rows, columns));
    }
  }
  check_case(gelu(9, 3585));
  check_case(swiglu(9, 3585));
  check_threads(gelu(0, 7));
  check_threads(swiglu(0, 7));
}

TEST_CASE("gelu and swiglu: the formulas, and the ratio rule in short types") {
  check_formula(gelu(33, 48), gelu_formula(inputs_as<double>(gelu(33, 48))));
  check_formula(swiglu(33, 48), swiglu_formula(inputs_as<double>(swiglu(33, 48))));
  check_ratio(gelu(33, 48), gelu_formula);
  check_ratio(swiglu(33, 48), swiglu_formula);
}

TEST_CASE("gelu and swiglu: in place") {
  check_in_place(gelu(33, 48), {{"y", "x"}}, Passes::Forward);
  check_in_place(gelu(33, 48), {{"dx", "dy"}});
  check_in_place(swiglu(33, 48), {{"y", "gate"}}, Passes::Forward);
  check_in_place(swiglu(33, 48), {{"y", "up"}}, Passes::Forward);
  check_in_place(swiglu(33, 48), {{"dgate", "gate"}, {"dup", "up"}});
}

TEST_CASE("gelu: known values, the tails, NaN") {
  const Values known{0.8411919906082768, -0.15428599017485606, 2.996362607918227, -0.0036373920817729943, 10, 0};
  const Values f64 = gelu_of({1, -0.5, 3, -3, 10, 0}, DType::F64);
  const Values f32 = gelu_of({1, -0.5, 3, -3, 10, 0}, DType::F32);
  for (std::size_t i = 0; i < known.size(); ++i) {
    CHECK(f64[i] == Approx(known[i]).epsilon(1e-14));
    CHECK(f32[i] == Approx(known[i]).epsilon(1e-6));  // also in the left tail, where 1 + tanh has lost its digits
  }
  for (const DType type : {DType::F64, DType::F32, DType::BF16}) {
    const Values ends = gelu_of({1e4, -1e4, kInfinity, std::nan("")}, type);
    CHECK(ends[0] == rounded(type, 1e4));
    CHECK(ends[1] == 0);
    CHECK(ends[2] == kInfinity);
    CHECK(std::isnan(ends[3]));
  }
}

TEST_CASE("gelu: the slope is finite far out") {
  OpCase c = gelu(1, 6);
  c.inputs["x"].values = {1e4, -1e4, 90, -90, 14, -14};
  c.inputs["dy"].values = Values(6, 1.0);
  for (const DType type : {DType::F64, DType::F32}) {
    const Values dx = execute(c, {.type = type}).at("dx").values;
    for (std::size_t i = 0; i < dx.size(); ++i) CHECK(dx[i] == Approx(i % 2 == 0 ? 1 : 0).margin(1e-30));
  }
}

TEST_CASE("swiglu: known values and the tails") {
  OpCase c = swiglu(1, 5);
  c.inputs["gate"].values = {1, -2, 1e4, -1e4, 0};
  c.inputs["up"].values = {1, 3, 2, 2, 5};
  c.inputs["dy"].values = Values(5, 1.0);
  const Arrays exact = execute(c, {});
  CHECK(exact.at("y").values[0] == Approx(0.7310585786300049).epsilon(1e-14));
  CHECK(exact.at("y").values[1] == Approx(3 * -0.2384058440442351).epsilon(1e-14));
  for (const DType type : {DType::F64, DType::F32}) {
    const Arrays results = execute(c, {.type = type});
    CHECK(results.at("y").values[2] == 2e4);
    CHECK(results.at("y").values[3] == 0);
    CHECK(results.at("dgate").values == Values{results.at("dgate").values[0], results.at("dgate").values[1], 2, 0, 2.5});
    CHECK(results.at("dup").values[2] == 1e4);
  }
}

TEST_CASE("swiglu: gate and up as the halves of one buffer, gradients in their place") {
  const std::int64_t rows = 33, width = 7;
  const OpCase apart = swiglu(rows, width);
  const Arrays expected = execute(apart, {.type = DType::F32});
  Guarded both(DType::F32, {rows, 2 * width}), dy(DType::F32, {rows, width});
  Values values, gradients;
  const auto append = [&](Values& to, const Values& from, std::int64_t n) {
    to.insert(to.end(), from.begin() + n * width, from.begin() + (n + 1) * width);
  };
  for (std::int64_t n = 0; n < rows; ++n) {
    append(values, apart.inputs.at("gate").values, n);
    append(values, apart.inputs.at("up").values, n);
    append(gradients, expected.at("dgate").values, n);
    append(gradients, expected.at("dup").values, n);
  }
  both.set(values);
  dy.set(apart.inputs.at("dy").values);
  const Tensor gate = both.view().slice(1, 0, width), up = both.view().slice(1, width, 2 * width);
  Context context = context_for(DType::F32);
  ops::run(context, ops::SwiGlu::Backward{.dgate = gate, .dup = up, .dy = dy.view(), .gate = gate, .up = up});
  CHECK(both.values() == gradients);
}

TEST_CASE("gelu and swiglu: bad arguments are named") {
  OpCase c = gelu(3, 4);
  c.inputs["dy"] = normal({3, 5}, 1);
  check_error([&] { execute(c, {}); }, {"gelu.backward: dy must be f64(3, 4), got f64(3, 5)"});
  c = swiglu(3, 4);
  c.inputs["up"] = normal({4, 4}, 1);
  check_error([&] { execute(c, {}); }, {"swiglu: up must be f64(3, 4), got f64(4, 4)"});
  c.inputs["gate"] = normal({12}, 1);
  check_error([&] { execute(c, {}); }, {"swiglu: gate must be a floating tensor (N, I), got f64(12)"});
}

}  // namespace oxrse::test

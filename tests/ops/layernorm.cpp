#include "engine/ops/layernorm.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/ops/harness.h"

namespace oxrse::test {
namespace {

constexpr double kEps = 1e-5;

OpCase layernorm(std::int64_t rows, std::int64_t columns, bool bias = true) {
  OpCase c;
  c.name = fmt::format("layernorm N={} C={} bias={}", rows, columns, bias);
  c.inputs = {{"x", normal({rows, columns}, 1, 2, 0.5)}, {"w", normal({columns}, 2, 0.3, 1)}, {"dy", normal({rows, columns}, 4)}};
  if (bias) c.inputs["b"] = normal({columns}, 3);
  c.forward = [=](Run& r) {
    r.run(ops::LayerNorm{.y = r.rows_out("y", {rows, columns}),
                         .mean = r.out("mean", r.accumulator(), {rows}),
                         .rstd = r.out("rstd", r.accumulator(), {rows}),
                         .x = r.rows_in("x"),
                         .w = r.in("w"),
                         .b = r.in("b"),
                         .eps = kEps});
  };
  c.backward = [=](Run& r) {
    r.run(ops::LayerNorm::Backward{.dx = r.sum_rows_out("dx", {rows, columns}),
                                   .dw = r.sum_out("dw", r.accumulator(), {columns}),
                                   .db = bias ? r.sum_out("db", r.accumulator(), {columns}) : Tensor{},
                                   .dy = r.rows_in("dy"),
                                   .x = r.rows_in("x"),
                                   .w = r.in("w"),
                                   .mean = r.made("mean"),
                                   .rstd = r.made("rstd"),
                                   .to_dx = r.write(),
                                   .to_dw = r.write()});
  };
  return c;
}

auto formula(std::size_t rows, std::size_t columns) {
  return [=]<class S>(const Named<S>& in) {
    using std::sqrt;
    const auto &x = in.at("x"), &w = in.at("w"), &b = in.at("b"), &dy = in.at("dy");
    std::vector<S> y(x.size()), dx(x.size()), dw(columns), db(columns);
    const S count(static_cast<double>(columns));
    for (std::size_t n = 0; n < rows; ++n) {
      const std::size_t row = n * columns;
      S mean = 0, variance = 0, mean_g = 0, mean_g_xhat = 0;
      for (std::size_t c = 0; c < columns; ++c) mean += x[row + c] / count;
      for (std::size_t c = 0; c < columns; ++c) variance += (x[row + c] - mean) * (x[row + c] - mean) / count;
      const S rstd = S(1) / sqrt(variance + S(kEps));
      for (std::size_t c = 0; c < columns; ++c) {
        const S xhat = (x[row + c] - mean) * rstd;
        y[row + c] = xhat * w[c] + b[c];
        dw[c] += dy[row + c] * xhat;
        db[c] += dy[row + c];
        mean_g += dy[row + c] * w[c] / count;
        mean_g_xhat += dy[row + c] * w[c] * xhat / count;
      }
      for (std::size_t c = 0; c < columns; ++c) {
        dx[row + c] = rstd * (dy[row + c] * w[c] - mean_g - (x[row + c] - mean) * rstd * mean_g_xhat);
      }
    }
    return Named<S>{{"y", y}, {"dx", dx}, {"dw", dw}, {"db", db}};
  };
}

}  // namespace

TEST_CASE("layernorm: odd sizes") {
  for (const std::int64_t columns : {7, 48, 211}) {
    for (const std::int64_t rows : {1, 33, 130}) check_case(layernorm(rows, columns));
  }
  check_case(layernorm(33, 48, false));
  for (const std::int64_t columns : {3584, 3585}) check_case(layernorm(3, columns));
}

TEST_CASE("layernorm: the formula, and the ratio rule in short types") {
  const OpCase c = layernorm(33, 48);
  check_formula(c, formula(33, 48)(inputs_as<double>(c)));
  check_ratio(c, formula(33, 48));
  check_ratio(layernorm(5, 7), formula(5, 7));
}

TEST_CASE("layernorm: gradients in place and added to") {
  check_in_place(layernorm(33, 48), {{"dx", "dy"}});
  check_in_place(layernorm(33, 48), {{"y", "x"}}, Passes::Forward);
  check_add(layernorm(33, 48), {"dx", "dw", "db"});
  check_add(layernorm(33, 48, false), {"dx", "dw"});
}

TEST_CASE("layernorm: values by hand") {
  OpCase c = layernorm(1, 4);
  c.inputs = {{"x", numbers({1, 4}, {1, 2, 3, 4})}, {"w", numbers({4}, {1, 1, 1, 2})}, {"b", numbers({4}, {0, 0, 0, 1})}};
  c.backward = {};
  const double rstd = 1 / std::sqrt(1.25 + kEps);
  check_formula(c, {{"y", {-1.5 * rstd, -0.5 * rstd, 0.5 * rstd, 3 * rstd + 1}}, {"mean", {2.5}}, {"rstd", {rstd}}});
}

TEST_CASE("layernorm: a large mean with a small spread keeps its digits") {
  for (const std::int64_t columns : {768, 3585}) {
    OpCase c = layernorm(2, columns);
    Values& x = c.inputs["x"].values;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1e4 + static_cast<double>(i % static_cast<std::size_t>(columns)) * 1e-3;
    c.backward = {};
    check_f32(c);
  }
}

TEST_CASE("layernorm: a constant row is its bias") {
  for (const double value : {0.0, 3.0, 1e4, -1e-4}) {
    OpCase c = layernorm(3, 3585);
    for (double& x : c.inputs["x"].values) x = value;
    for (const DType type : {DType::F64, DType::F32, DType::BF16}) {
      const Values y = execute(c, {.type = type}).at("y").values;
      const Values& b = c.inputs.at("b").values;
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (!(std::abs(y[i] - rounded(type, b[i % b.size()])) <= 2e-6))
          FAIL("constant " << value << " in " << name_of(type) << ": y[" << i << "] = " << y[i]);
      }
    }
  }
}

TEST_CASE("layernorm: one column, no rows") {
  const OpCase one = layernorm(5, 1);
  const Arrays results = execute(one, {.type = DType::F32});
  const double bias = rounded(DType::F32, one.inputs.at("b").values[0]);
  for (const double y : results.at("y").values) CHECK(y == Approx(bias).margin(1e-6));
  for (const double dx : results.at("dx").values) CHECK(std::abs(dx) <= 1e-4);  // rounding, times rstd = 316
  for (const DType type : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    const Arrays none = execute(layernorm(0, 7), {.type = type});
    CHECK(none.at("dw").values == Values(7, 0.0));
    CHECK(none.at("db").values == Values(7, 0.0));
  }
}

TEST_CASE("layernorm: bad arguments are named") {
  OpCase c = layernorm(3, 8);
  c.inputs["w"] = normal({7}, 2);
  check_error([&] { execute(c, {.type = DType::BF16}); }, {"layernorm: w must be bf16(8), got bf16(7)"});
  check_error([&] { execute(layernorm(3, 0), {}); }, {"layernorm: x has rows without elements"});
  Run r(c.inputs, {});
  check_error([&] { r.run(ops::LayerNorm{.y = {}, .mean = {}, .rstd = {}, .x = {}, .w = {}}); },
              {"layernorm: x must be a floating tensor (N, C), got absent"});
}

}  // namespace oxrse::test

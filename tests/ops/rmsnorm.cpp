#include "engine/ops/rmsnorm.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/ops/harness.h"

namespace oxrse::test {
namespace {

constexpr double kEps = 1e-6;

/// A row of one element is +-1 but for eps: only a large one leaves a gradient to look at.
double eps_of(std::int64_t columns) { return columns == 1 ? 0.5 : kEps; }

/// x of sizes (N, C) or (N, H, C).
OpCase rmsnorm(const Sizes& sizes) {
  const Sizes statistics(sizes.begin(), sizes.end() - 1);
  const std::int64_t columns = sizes.back();
  OpCase c;
  c.name = fmt::format("rmsnorm ({})", fmt::join(sizes, ", "));
  c.inputs = {{"x", normal(sizes, 1, 2, 0.5)}, {"w", normal({columns}, 2, 0.3, 1)}, {"dy", normal(sizes, 4)}};
  c.forward = [=](Run& r) {
    r.run(ops::RmsNorm{.y = r.rows_out("y", sizes),
                       .rstd = r.out("rstd", r.accumulator(), statistics),
                       .x = r.rows_in("x"),
                       .w = r.in("w"),
                       .eps = eps_of(columns)});
  };
  c.backward = [=](Run& r) {
    r.run(ops::RmsNorm::Backward{.dx = r.sum_rows_out("dx", sizes),
                                 .dw = r.sum_out("dw", r.accumulator(), {columns}),
                                 .dy = r.rows_in("dy"),
                                 .x = r.rows_in("x"),
                                 .w = r.in("w"),
                                 .rstd = r.made("rstd"),
                                 .to_dx = r.write(),
                                 .to_dw = r.write()});
  };
  return c;
}

auto formula(std::size_t rows, std::size_t columns) {
  return [=]<class S>(const Named<S>& in) {
    using std::sqrt;
    const auto &x = in.at("x"), &w = in.at("w"), &dy = in.at("dy");
    std::vector<S> y(x.size()), dx(x.size()), dw(columns);
    const S count(static_cast<double>(columns));
    for (std::size_t n = 0; n < rows; ++n) {
      const std::size_t row = n * columns;
      S square = 0, mean = 0;
      for (std::size_t c = 0; c < columns; ++c) square += x[row + c] * x[row + c] / count;
      const S rstd = S(1) / sqrt(square + S(kEps));
      for (std::size_t c = 0; c < columns; ++c) {
        const S xhat = x[row + c] * rstd;
        y[row + c] = xhat * w[c];
        dw[c] += dy[row + c] * xhat;
        mean += dy[row + c] * w[c] * xhat / count;
      }
      for (std::size_t c = 0; c < columns; ++c) dx[row + c] = rstd * (dy[row + c] * w[c] - x[row + c] * rstd * mean);
    }
    return Named<S>{{"y", y}, {"dx", dx}, {"dw", dw}};
  };
}

}  // namespace

TEST_CASE("rmsnorm: odd sizes") {
  for (const std::int64_t columns : {1, 7, 48, 211}) {
    for (const std::int64_t rows : {1, 33, 130}) check_case(rmsnorm({rows, columns}));
  }
  check_case(rmsnorm({3, 3585}));
  for (const std::int64_t width : {2, 24, 80}) check_case(rmsnorm({5, 12, width}));
}

TEST_CASE("rmsnorm: the formula, and the ratio rule in short types") {
  const OpCase c = rmsnorm({33, 48});
  check_formula(c, formula(33, 48)(inputs_as<double>(c)));
  check_ratio(c, formula(33, 48));
  check_ratio(rmsnorm({3, 4, 7}), formula(12, 7));
}

TEST_CASE("rmsnorm: gradients in place and added to") {
  check_in_place(rmsnorm({33, 48}), {{"dx", "dy"}});
  check_in_place(rmsnorm({5, 12, 24}), {{"dx", "dy"}});
  check_in_place(rmsnorm({33, 48}), {{"y", "x"}}, Passes::Forward);
  check_add(rmsnorm({33, 48}), {"dx", "dw"});
}

TEST_CASE("rmsnorm: heads inside the rows of a wider buffer") {
  // q, k, v side by side: 3 heads of 4 each, the k heads are normalised where they are.
  const std::int64_t rows = 7, heads = 3, width = 4;
  const Array all = normal({rows, 3 * heads * width}, 5);
  Array keys{{rows, heads, width}, {}};
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t i = 0; i < heads * width; ++i) {
      keys.values.push_back(all.values[static_cast<std::size_t>(n * 3 * heads * width + heads * width + i)]);
    }
  }
  OpCase apart = rmsnorm({rows, heads, width});
  apart.backward = {};
  apart.inputs["x"] = keys;
  const Values expected = execute(apart, {.type = DType::F32}).at("y").values;

  Guarded buffer(DType::F32, {rows, 3 * heads * width});
  Guarded w(DType::F32, {width});
  Guarded rstd(DType::F32, {rows, heads});
  buffer.set(all.values);
  w.set(apart.inputs.at("w").values);
  const Tensor view = buffer.view().slice(1, heads * width, 2 * heads * width).split(1, width);
  Context context = context_for(DType::F32);
  ops::run(context, ops::RmsNorm{.y = view, .rstd = rstd.view(), .x = view, .w = w.view(), .eps = kEps});
  Values whole = all.values;
  for (double& v : whole) v = rounded(DType::F32, v);
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t i = 0; i < heads * width; ++i) {
      whole[static_cast<std::size_t>(n * 3 * heads * width + heads * width + i)] =
          expected[static_cast<std::size_t>(n * heads * width + i)];
    }
  }
  CHECK(buffer.values() == whole);
  CHECK(rstd.written());
}

TEST_CASE("rmsnorm: zeros stay zeros, no rows give no gradient") {
  OpCase c = rmsnorm({3, 48});
  for (double& x : c.inputs["x"].values) x = 0;
  const Arrays results = execute(c, {.type = DType::F32});
  CHECK(results.at("y").values == Values(3 * 48, 0.0));
  for (const double r : results.at("rstd").values) CHECK(r == Approx(1e3));
  CHECK(execute(rmsnorm({0, 7}), {}).at("dw").values == Values(7, 0.0));
}

TEST_CASE("rmsnorm: bad arguments are named") {
  OpCase c = rmsnorm({3, 8});
  c.inputs["w"] = normal({7}, 2);
  check_error([&] { execute(c, {.type = DType::F32}); }, {"rmsnorm: w must be f32(8), got f32(7)"});
  c = rmsnorm({3, 8});
  c.inputs["dy"] = normal({8, 3}, 2);
  check_error([&] { execute(c, {.type = DType::F16}); }, {"rmsnorm.backward: dy must be f16(3, 8), got f16(8, 3)"});
}

}  // namespace oxrse::test

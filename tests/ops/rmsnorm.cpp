#include "engine/ops/rmsnorm.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/ops/rmsnorm_case.h"

namespace oxrse::test {
TEST_CASE("rmsnorm: odd sizes") {
  for (const std::int64_t columns : {1, 7, 48, 211}) {
    for (const std::int64_t rows : {1, 33, 130}) check_case(rmsnorm_case({rows, columns}));
  }
  for (const std::int64_t columns : {3584, 3585}) check_case(rmsnorm_case({3, columns}));
  for (const std::int64_t width : {2, 24, 80}) check_case(rmsnorm_case({5, 12, width}));
}

TEST_CASE("rmsnorm: the formula, and the ratio rule in short types") {
  const OpCase c = rmsnorm_case({33, 48});
  check_formula(c, rmsnorm_formula(33, 48)(inputs_as<double>(c)));
  check_ratio(c, rmsnorm_formula(33, 48));
  check_ratio(rmsnorm_case({3, 4, 7}), rmsnorm_formula(12, 7));
}

TEST_CASE("rmsnorm: gradients in place and added to") {
  check_in_place(rmsnorm_case({33, 48}), {{"dx", "dy"}});
  check_in_place(rmsnorm_case({5, 12, 24}), {{"dx", "dy"}});
  check_in_place(rmsnorm_case({33, 48}), {{"y", "x"}}, Passes::Forward);
  check_add(rmsnorm_case({33, 48}), {"dx", "dw"});
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
  OpCase apart = rmsnorm_case({rows, heads, width});
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
  ops::run(context, ops::RmsNorm{.y = view, .rstd = rstd.view(), .x = view, .w = w.view(), .eps = kRmsNormEps});
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
  OpCase c = rmsnorm_case({3, 48});
  for (double& x : c.inputs["x"].values) x = 0;
  const Arrays results = execute(c, {.type = DType::F32});
  CHECK(results.at("y").values == Values(3 * 48, 0.0));
  for (const double r : results.at("rstd").values) CHECK(r == Approx(1e3));
  for (const DType type : {DType::F64, DType::F32, DType::BF16, DType::F16})
    CHECK(execute(rmsnorm_case({0, 7}), {.type = type}).at("dw").values == Values(7, 0.0));
}

TEST_CASE("rmsnorm: more rows than a grid has blocks in its second dimension") {
  OpCase c = rmsnorm_case({65536, 3});
  c.backward = {};
  check_f32(c);
}

TEST_CASE("rmsnorm: bad arguments are named") {
  OpCase c = rmsnorm_case({3, 8});
  c.inputs["w"] = normal({7}, 2);
  check_error([&] { execute(c, {.type = DType::F32}); }, {"rmsnorm: w must be f32(8), got f32(7)"});
  c = rmsnorm_case({3, 8});
  c.inputs["dy"] = normal({8, 3}, 2);
  check_error([&] { execute(c, {.type = DType::F16}); }, {"rmsnorm.backward: dy must be f16(3, 8), got f16(8, 3)"});
}

}  // namespace oxrse::test

#include "engine/ops/dropout.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/ops/harness.h"

namespace oxrse::test {
namespace {

constexpr double kP = 0.3;

OpCase dropout(std::int64_t rows, std::int64_t columns, bool residual, double p = kP) {
  OpCase c;
  c.name = fmt::format("dropout N={} C={} residual={}", rows, columns, residual);
  c.inputs = {{"x", normal({rows, columns}, 1)}, {"dy", normal({rows, columns}, 2)}};
  if (residual) c.inputs["residual"] = normal({rows, columns}, 3);
  const RandomStream random(5, 6);
  c.forward = [=](Run& r) {
    r.run(ops::Dropout{.y = r.rows_out("y", {rows, columns}),
                       .x = r.rows_in("x"),
                       .residual = r.rows_in("residual"),
                       .p = p,
                       .random = random,
                       .first_row = 4});
  };
  c.backward = [=](Run& r) {
    r.run(ops::Dropout{.y = r.rows_out("dx", {rows, columns}), .x = r.rows_in("dy"), .p = p, .random = random, .first_row = 4});
  };
  return c;
}

/// The rows [begin, end) of ones, dropped as part of a larger batch: 0 where dropped.
Values mask(std::int64_t begin, std::int64_t end, std::int64_t columns, const RandomStream& random, double p = kP) {
  Guarded x(DType::F64, {end - begin, columns});
  x.set(Values(static_cast<std::size_t>((end - begin) * columns), 1.0));
  Context context;
  ops::run(context, ops::Dropout{.y = x.view(), .x = x.view(), .p = p, .random = random, .first_row = begin});
  return x.values();
}

}  // namespace

TEST_CASE("dropout: odd sizes") {
  for (const bool residual : {false, true}) {
    for (const std::int64_t columns : {7, 48, 211}) {
      check_case(dropout(1, columns, residual));
      check_case(dropout(33, columns, residual));
    }
    check_case(dropout(9, 3585, residual));
    check_threads(dropout(0, 7, residual));
  }
}

TEST_CASE("dropout: in place") {
  check_in_place(dropout(33, 48, true), {{"y", "x"}}, Passes::Forward);
  check_in_place(dropout(33, 48, true), {{"y", "residual"}}, Passes::Forward);
  check_in_place(dropout(33, 48, true), {{"dx", "dy"}});
}

TEST_CASE("dropout: kept elements are scaled, the share of dropped ones is p") {
  const Values m = mask(0, 200, 500, RandomStream(1, 2));
  double dropped = 0;
  for (const double v : m) {
    if (v == 0) {
      ++dropped;
    } else if (!(std::abs(v - 1 / (1 - kP)) <= 1e-15)) {
      FAIL("kept as " << v);
    }
  }
  // 1e5 elements: one standard deviation of the share is 0.0014.
  CHECK(dropped / 1e5 == Approx(kP).margin(0.006));
}

TEST_CASE("dropout: the mask belongs to the element, not to the way rows are split") {
  for (const std::int64_t columns : {1, 2, 3, 7, 48, 50}) {
    const RandomStream random(3, 4);
    const Values whole = mask(0, 13, columns, random);
    Values parts;
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 6}, {6, 6}, {6, 13}}) {
      const Values part = mask(begin, end, columns, random);
      parts.insert(parts.end(), part.begin(), part.end());
    }
    CHECK(parts == whole);
  }
  CHECK(mask(0, 13, 48, RandomStream(3, 4)) != mask(0, 13, 48, RandomStream(3, 5)));
  CHECK(mask(0, 13, 48, RandomStream(3, 4)) != mask(13, 26, 48, RandomStream(3, 4)));
}

TEST_CASE("dropout: element e has word e mod 4 of draw e / 4") {
  const std::int64_t columns = 7, first_row = 3;
  const RandomStream random(3, 4);
  const Values m = mask(first_row, first_row + 90, columns, random, 0.25);
  for (std::size_t i = 0; i < m.size(); ++i) {
    const std::uint64_t element = static_cast<std::uint64_t>(first_row * columns) + i;
    const bool kept = random.words(element / 4)[element % 4] >= 0x40000000U;
    if (kept != (m[i] != 0)) FAIL("element " << element);
  }
}

TEST_CASE("dropout: rows far beyond 2^32 elements have numbers of their own") {
  const std::int64_t far = (std::int64_t{1} << 32) / 64;
  CHECK(mask(far, far + 2, 64, RandomStream(3, 4)) != mask(0, 2, 64, RandomStream(3, 4)));
}

TEST_CASE("dropout: p = 0 is the identity, p close to 1 keeps next to nothing") {
  const OpCase c = dropout(33, 48, false, 0);
  CHECK(execute(c, {}).at("y").values == c.inputs.at("x").values);
  const Values m = mask(0, 100, 100, RandomStream(1, 2), 0.9999);
  CHECK(std::ranges::count_if(m, [](double v) { return v != 0; }) <= 10);
}

TEST_CASE("dropout: a dropped NaN is gone, the residual's stays") {
  OpCase c = dropout(1, 1000, true, 0.5);
  for (double& v : c.inputs["x"].values) v = std::nan("");
  const Values y = execute(c, {.type = DType::F32}).at("y").values;
  const auto kept = std::ranges::count_if(y, [](double v) { return std::isnan(v); });
  CHECK(kept > 400);
  CHECK(kept < 600);
}

TEST_CASE("dropout: bad arguments are named") {
  check_error([] { execute(dropout(3, 4, false, 1), {}); }, {"dropout: p must be in [0, 1), got 1"});
  check_error([] { execute(dropout(3, 4, false, -0.1), {}); }, {"dropout: p must be in [0, 1), got -0.1"});
  OpCase c = dropout(3, 4, true);
  c.inputs["residual"] = normal({3, 5}, 1);
  check_error([&] { execute(c, {}); }, {"dropout: residual must be f64(3, 4), got f64(3, 5)"});
}

}  // namespace oxrse::test

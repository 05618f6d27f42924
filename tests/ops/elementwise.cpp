#include "engine/ops/elementwise.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/harness.h"

namespace oxrse::test {
namespace {

constexpr DType kTypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16};

OpCase add(std::int64_t count) {
  OpCase c;
  c.name = fmt::format("add count={}", count);
  c.inputs = {{"a", normal({count}, 1)}, {"b", normal({count}, 2)}, {"dy", normal({count}, 3)}};
  c.forward = [=](Run& r) { r.run(ops::Add{.y = r.out("y", {count}), .a = r.in("a"), .b = r.in("b")}); };
  return c;
}

OpCase sum(std::int64_t count) {
  OpCase c;
  c.name = fmt::format("sum count={}", count);
  c.inputs = {{"x", normal({count}, 1)}};
  c.forward = [=](Run& r) { r.run(ops::Sum{.sum = r.sum_out("sum", DType::F64, {1}), .x = r.in("x"), .to_sum = r.write()}); };
  return c;
}

OpCase fill_normal(std::int64_t first, std::int64_t count, double mean = 0, double stddev = 1) {
  OpCase c;
  c.name = fmt::format("fill_normal [{}, {})", first, first + count);
  c.forward = [=](Run& r) {
    r.run(ops::FillNormal{.y = r.out("y", {count}), .mean = mean, .stddev = stddev, .random = RandomStream(1, 2), .first_element = first});
  };
  return c;
}

Values cast(const Values& values, DType from, DType to) {
  Guarded x(from, {static_cast<std::int64_t>(values.size())}), y(to, {static_cast<std::int64_t>(values.size())});
  x.set(values);
  Context context = context_for(DType::F32);
  ops::run(context, ops::Cast{.y = y.view(), .x = x.view()});
  CHECK(y.intact());
  CHECK(y.written());
  return y.values();
}

}  // namespace

TEST_CASE("add: sizes, types, in place") {
  for (const std::int64_t count : {0, 1, 7, 48, 16385, 50000}) {
    check_f32(add(count));
    check_threads(add(count));
    const OpCase c = add(count);
    Values expected = c.inputs.at("a").values;
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += c.inputs.at("b").values[i];
    CHECK(execute(c, {}).at("y").values == expected);
  }
  check_in_place(add(48), {{"y", "a"}});
  check_in_place(add(48), {{"y", "b"}});
  // One rounding: what a short type gives is the f64 sum of its numbers, rounded.
  for (const DType type : {DType::BF16, DType::F16}) {
    const OpCase c = rounded_to(type, add(333));
    Values expected = execute(c, {}).at("y").values;
    for (double& v : expected) v = rounded(type, v);
    CHECK(execute(c, {.type = type}).at("y").values == expected);
  }
}

TEST_CASE("sum: exact where f32 would lose, the same for any number of threads") {
  for (const std::int64_t count : {0, 1, 7, 16385, 100000}) {
    check_threads(sum(count));
    check_add(sum(count), {"sum"});
  }
  OpCase ones = sum(40000);
  ones.inputs["x"].values = Values(40000, 1.0);
  ones.inputs["x"].values[0] = 16777216;
  CHECK(execute(ones, {.type = DType::F32}).at("sum").values == Values{16777216 + 39999});
  ones.inputs["x"].values[0] = 256;
  CHECK(execute(ones, {.type = DType::BF16}).at("sum").values == Values{256 + 39999});
  ones.inputs["x"].values[12345] = std::nan("");
  CHECK(std::isnan(execute(ones, {.type = DType::F32}).at("sum").values[0]));
}

TEST_CASE("fill: every element, rounded once") {
  for (const DType type : kTypes) {
    for (const double value : {0.0, -1.0, 0.1, 1 + 0x1p-9 + 0x1p-40}) {
      for (const std::int64_t count : {0, 1, 16385}) {
        OpCase c{.name = "fill", .inputs = {}, .forward = [=](Run& r) { r.run(ops::Fill{.y = r.out("y", {count}), .value = value}); }};
        CHECK(execute(c, {.type = type}).at("y").values == Values(static_cast<std::size_t>(count), rounded(type, value)));
      }
    }
  }
}

TEST_CASE("fill_normal: the same numbers in every type and for every split") {
  const Values whole = execute(fill_normal(100, 40000, 0.5, 2), {}).at("y").values;
  for (const DType type : kTypes) {
    Values expected = whole;
    for (double& v : expected) v = rounded(type, v);
    CHECK(execute(fill_normal(100, 40000, 0.5, 2), {.type = type, .threads = 2}).at("y").values == expected);
  }
  const Values tail = execute(fill_normal(100 + 33333, 40000 - 33333, 0.5, 2), {}).at("y").values;
  CHECK(std::equal(tail.begin(), tail.end(), whole.begin() + 33333));
  const RandomStream random(1, 2);
  CHECK(whole[7] == Approx(0.5 + 2 * random.normal(107)).epsilon(1e-14));
}

TEST_CASE("fill_normal: moments") {
  const Values values = execute(fill_normal(0, 100000), {}).at("y").values;
  double mean = 0, square = 0, fourth = 0;
  for (const double v : values) {
    mean += v / 1e5;
    square += v * v / 1e5;
    fourth += v * v * v * v / 1e5;
  }
  CHECK(mean == Approx(0).margin(0.015));
  CHECK(square == Approx(1).margin(0.02));
  CHECK(fourth == Approx(3).margin(0.15));
  CHECK(execute(fill_normal(0, 5, 3, 0), {}).at("y").values == Values(5, 3.0));
}

TEST_CASE("cast: every pair of types rounds once, to nearest even") {
  Values values = normal({5000}, 1, 10).values;
  const Values exact{0, -0.0, 1, 65504, -65504, 0x1p-24, 0x1p-14, 1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-11, 1 + 3 * 0x1p-11};
  values.insert(values.end(), exact.begin(), exact.end());
  for (const DType from : kTypes) {
    Values start = values;
    for (double& v : start) v = rounded(from, v);
    for (const DType to : kTypes) {
      INFO(name_of(from) << " to " << name_of(to));
      Values expected = start;
      for (double& v : expected) v = rounded(to, v);
      CHECK(cast(start, from, to) == expected);
    }
  }
}

TEST_CASE("cast: f64 to a short type does not round twice") {
  // A hair above the middle of two bf16 numbers: rounded to f32 first, it would fall on the middle and then to the even side.
  CHECK(cast({1 + 0x1p-8 + 0x1p-40}, DType::F64, DType::BF16) == Values{1 + 0x1p-7});
  CHECK(cast({1 + 0x1p-8 - 0x1p-40}, DType::F64, DType::BF16) == Values{1});
  CHECK(cast({-1 - 0x1p-8 - 0x1p-40}, DType::F64, DType::BF16) == Values{-1 - 0x1p-7});
  CHECK(cast({1 + 0x1p-11 + 0x1p-40}, DType::F64, DType::F16) == Values{1 + 0x1p-10});
}

TEST_CASE("cast: overflow, infinity, NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType to : {DType::F32, DType::BF16, DType::F16}) {
    const Values y = cast({1e300, -1e300, inf, -inf, std::nan(""), 1e-300}, DType::F64, to);
    CHECK(Values(y.begin(), y.begin() + 4) == Values{inf, -inf, inf, -inf});
    CHECK(std::isnan(y[4]));
    CHECK(y[5] == 0);
  }
  CHECK(cast({65519, 65520, 70000}, DType::F32, DType::F16) == Values{65504, inf, inf});
  CHECK(std::isnan(cast({std::nan("")}, DType::F32, DType::BF16)[0]));
}

TEST_CASE("element-wise ops: bad arguments are named") {
  Context context = context_for(DType::F32);
  Guarded a(DType::F32, {4}), b(DType::F32, {5}), c(DType::F64, {4}), gaps(DType::F32, {2, 2}, 3);
  check_error([&] { ops::run(context, ops::Add{.y = a.view(), .a = a.view(), .b = b.view()}); },
              {"add: b must have the type and number of elements of a f32(4), got f32(5)"});
  check_error([&] { ops::run(context, ops::Add{.y = c.view(), .a = a.view(), .b = a.view()}); }, {"add: y must have", "got f64(4)"});
  check_error([&] { ops::run(context, ops::Cast{.y = b.view(), .x = a.view()}); }, {"cast: y must have as many elements as x f32(4)"});
  check_error([&] { ops::run(context, ops::Cast{.y = gaps.view(), .x = a.view()}); }, {"cast: y must be contiguous, got f32(2, 2)"});
  check_error([&] { ops::run(context, ops::Fill{.y = {}}); }, {"fill: y must be a floating tensor, got absent"});
  check_error([&] { ops::run(context, ops::Sum{.sum = a.view(), .x = a.view()}); }, {"sum: sum must be f64(1), got f32(4)"});
}

}  // namespace oxrse::test

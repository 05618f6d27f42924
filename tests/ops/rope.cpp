#include "engine/ops/rope.h"

#include <cmath>
#include <numbers>

#include "tests/catch.h"
#include "tests/ops/harness.h"

namespace oxrse::test {
namespace {

/// Forward turns `y`, which holds a copy of x, in place; backward turns dy back.
OpCase rope(std::int64_t rows, std::int64_t heads, std::int64_t width, std::int64_t positions = 50) {
  OpCase c;
  c.name = fmt::format("rope N={} H={} D={}", rows, heads, width);
  const Sizes sizes{rows, heads, width};
  c.inputs = {{"x", normal(sizes, 1)}, {"dy", normal(sizes, 2)}, {"positions", integers({rows}, 3, positions)}};
  c.forward = [=](Run& r) {
    const Tensor table = r.out("table", r.accumulator(), {positions, width});
    r.run(ops::RopeTable{.table = table, .theta = 100});
    r.run(ops::Rope{.x = r.rows_copy("y", "x"), .positions = r.in("positions", DType::I32), .table = table});
  };
  c.backward = [=](Run& r) {
    r.run(ops::Rope{.x = r.rows_copy("dx", "dy"), .positions = r.in("positions", DType::I32), .table = r.made("table"), .inverse = true});
  };
  return c;
}

auto formula(std::size_t heads, std::size_t width) {
  return [=]<class S>(const Named<S>& in) {
    const auto &x = in.at("x"), &dy = in.at("dy"), &positions = in.at("positions");
    std::vector<S> y(x.size()), dx(x.size());
    const std::size_t half = width / 2;
    for (std::size_t row = 0; row < x.size() / width; ++row) {
      for (std::size_t i = 0; i < half; ++i) {
        const double t = static_cast<double>(positions[row / heads]);
        const double angle = t / std::pow(100.0, 2 * static_cast<double>(i) / static_cast<double>(width));
        const S cosine(std::cos(angle)), sine(std::sin(angle));
        const std::size_t a = row * width + i, b = a + half;
        y[a] = x[a] * cosine - x[b] * sine;
        y[b] = x[b] * cosine + x[a] * sine;
        dx[a] = dy[a] * cosine + dy[b] * sine;
        dx[b] = dy[b] * cosine - dy[a] * sine;
      }
    }
    return Named<S>{{"y", y}, {"dx", dx}};
  };
}

}  // namespace

TEST_CASE("rope: odd sizes") {
  for (const std::int64_t width : {2, 24, 80}) {
    for (const std::int64_t rows : {1, 33}) {
      check_case(rope(rows, 3, width));
      check_case(rope(rows, 12, width));
    }
  }
  check_case(rope(200, 12, 64));
  check_threads(rope(0, 3, 24));
}

TEST_CASE("rope: the formula, and the ratio rule in short types") {
  const OpCase c = rope(33, 3, 24);
  check_formula(c, formula(3, 24)(inputs_as<double>(c)));
  check_ratio(c, formula(3, 24));
}

TEST_CASE("rope: a quarter turn, lengths kept, and the way back") {
  Context context;
  Guarded table(DType::F64, {3, 2}), x(DType::F64, {1, 1, 2}), position(DType::I32, {1});
  ops::run(context, ops::RopeTable{.table = table.view(), .theta = 7});
  CHECK(table.values() == Values{1, 0, std::cos(1.0), std::sin(1.0), std::cos(2.0), std::sin(2.0)});
  table.set(Values{1, 0, 0, 1, -1, 0});  // turns by 0, 90 and 180 degrees
  x.set(Values{3, 4});
  position.set(Values{1});
  ops::Rope turn{.x = x.view(), .positions = position.view(), .table = table.view()};
  ops::run(context, turn);
  CHECK(x.values() == Values{-4, 3});
  turn.inverse = true;
  ops::run(context, turn);
  CHECK(x.values() == Values{3, 4});
}

TEST_CASE("rope: inner products depend on the distance of positions only") {
  OpCase c = rope(2, 1, 24);
  const auto product = [&](double first, double second) {
    c.inputs["positions"] = numbers({2}, {first, second});
    const Values y = execute(c, {}).at("y").values;
    double sum = 0;
    for (std::size_t i = 0; i < 24; ++i) sum += y[i] * y[24 + i];
    return sum;
  };
  CHECK(product(3, 10) == Approx(product(31, 38)).epsilon(1e-12));
  CHECK(std::abs(product(3, 10) - product(3, 11)) > 1e-3);
}

TEST_CASE("rope: bad arguments are named before anything is turned") {
  OpCase c = rope(3, 2, 4);
  c.inputs["positions"] = numbers({3}, {0, 50, 1});
  check_error([&] { execute(c, {}); }, {"rope: positions[1] is 50, the table has positions 0 to 49"});
  c.inputs["positions"] = numbers({3}, {0, 1, -1});
  check_error([&] { execute(c, {}); }, {"rope: positions[2] is -1"});
  check_error([] { execute(rope(3, 2, 5), {}); }, {"rope_table: table must have an even number of columns, got f64(50, 5)"});
  c = rope(3, 2, 4);
  c.inputs["positions"] = numbers({2}, {0, 1});
  check_error([&] { execute(c, {}); }, {"rope: positions must be i32(3), got i32(2)"});
}

}  // namespace oxrse::test

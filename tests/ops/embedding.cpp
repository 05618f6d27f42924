#include "engine/ops/embedding.h"

#include "tests/catch.h"
#include "tests/ops/harness.h"

namespace oxrse::test {
namespace {

OpCase embedding(std::int64_t rows, std::int64_t vocabulary, std::int64_t columns) {
  OpCase c;
  c.name = fmt::format("embedding N={} V={} C={}", rows, vocabulary, columns);
  c.inputs = {{"ids", integers({rows}, 1, vocabulary)}, {"table", normal({vocabulary, columns}, 2)}, {"dy", normal({rows, columns}, 3)}};
  c.forward = [=](Run& r) {
    r.run(ops::Embedding{
        .y = r.sum_rows_out("y", {rows, columns}), .ids = r.in("ids", DType::I32), .table = r.rows_in("table"), .to_y = r.write()});
  };
  c.backward = [=](Run& r) {
    r.run(ops::Embedding::Backward{.dtable = r.sum_out("dtable", r.accumulator(), {vocabulary, columns}),
                                   .dy = r.rows_in("dy"),
                                   .ids = r.in("ids", DType::I32),
                                   .to_dtable = r.write()});
  };
  return c;
}

}  // namespace

TEST_CASE("embedding: odd sizes") {
  for (const std::int64_t columns : {1, 7, 48, 211}) {
    for (const std::int64_t rows : {1, 33, 500}) check_case(embedding(rows, 11, columns));
  }
  check_case(embedding(33, 211, 3585));
  check_add(embedding(33, 11, 48), {"y", "dtable"});
}

TEST_CASE("embedding: rows are copied, gradients of a row add up in order") {
  OpCase c = embedding(4, 3, 2);
  c.inputs["ids"] = numbers({4}, {2, 0, 2, 2});
  c.inputs["table"] = numbers({3, 2}, {1, 2, 3, 4, 5, 6});
  // In f32, 1 + 2^24 - 2^24 is 0 and not 1 in this order.
  c.inputs["dy"] = numbers({4, 2}, {1, 1, 7, 8, 16777216, 2, -16777216, 3});
  const Arrays results = execute(c, {.type = DType::F32});
  CHECK(results.at("y").values == Values{5, 6, 1, 2, 5, 6, 5, 6});
  CHECK(results.at("dtable").values == Values{7, 8, 0, 0, 0, 6});
}

TEST_CASE("embedding: no rows give a gradient of zeros") {
  CHECK(execute(embedding(0, 3, 2), {.type = DType::BF16}).at("dtable").values == Values(6, 0.0));
}

TEST_CASE("embedding: an id without a row is named, nothing is written") {
  OpCase c = embedding(3, 5, 2);
  c.inputs["ids"] = numbers({3}, {0, 5, 1});
  Run forward(c.inputs, {});
  check_error([&] { c.forward(forward); }, {"embedding: ids[1] is 5, the table has rows 0 to 4"});
  check_error([&] { forward.results(); }, {"an element of y was not written"});
  c.inputs["ids"] = numbers({3}, {0, 1, -1});
  Run backward(c.inputs, {});
  check_error([&] { c.backward(backward); }, {"embedding.backward: ids[2] is -1"});
  check_error([&] { backward.results(); }, {"an element of dtable was not written"});
}

TEST_CASE("embedding: bad arguments are named") {
  OpCase c = embedding(3, 5, 2);
  c.inputs["dy"] = normal({3, 4}, 1);
  check_error([&] { execute(c, {.type = DType::BF16}); }, {"embedding.backward: dtable must be f32(5, 4), got f32(5, 2)"});
  Run r(c.inputs, {});
  check_error(
      [&] {
        r.run(ops::Embedding{.y = r.out("y", {3, 2}), .ids = r.in("ids"), .table = r.in("table")});
      },
      {"embedding: ids must be i32 (N), got f64(3)"});
}

}  // namespace oxrse::test

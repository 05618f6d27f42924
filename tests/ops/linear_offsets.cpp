#include <cstdint>
#include <vector>

#include "engine/cpu/convert.h"
#include "engine/ops/linear.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"
#include "tests/ops/sparse_memory.h"

using namespace oxrse;
using namespace oxrse::test;
using ops::Linear;

namespace {

/// y and x, dy and dx with rows of `stride` elements; the numbers are small integers, exact in every type.
template <class T>
void check_rows_far_apart(std::int64_t n, std::int64_t stride) {
  INFO(name_of(dtype_of<T>) << ", " << n << " rows " << stride << " apart");
  const std::int64_t columns = 3;
  using R = accumulator_t<T>;
  const SparseMemory x_memory(n * stride * size_of(dtype_of<T>)), y_memory(n * stride * size_of(dtype_of<T>));
  const Tensor x = x_memory.view(dtype_of<T>, {n, stride}, columns), y = y_memory.view(dtype_of<T>, {n, stride}, columns);
  Guarded w(dtype_of<T>, {columns, columns}), dw(dtype_of<R>, {columns, columns}), dbias(dtype_of<R>, {columns});
  w.set(Values{1, 2, 0, 0, 1, 2, 3, 0, 1});
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) x.data<T>()[i * stride + j] = cpu::convert<T>(static_cast<float>((i + j) % 3 - 1));
  }
  Context context;
  context.cpu.threads = 2;
  ops::run(context, Linear{.y = y, .x = x, .w = w.view(), .bias = {}, .residual = {}});
  const auto at = [&](const Tensor& t, std::int64_t i, std::int64_t j) { return static_cast<float>(t.data<T>()[i * stride + j]); };
  const auto weight = [&](std::int64_t o, std::int64_t i) {
    return static_cast<float>(w.values()[static_cast<std::size_t>(o * columns + i)]);
  };
  std::int64_t wrong = 0;
  std::vector<double> expected_dw(9), expected_dbias(3);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t o = 0; o < columns; ++o) {
      float sum = 0;
      for (std::int64_t j = 0; j < columns; ++j) sum += at(x, i, j) * weight(o, j);
      wrong += at(y, i, o) == sum ? 0 : 1;
      expected_dbias[static_cast<std::size_t>(o)] += sum;
      for (std::int64_t j = 0; j < columns; ++j) expected_dw[static_cast<std::size_t>(o * columns + j)] += sum * at(x, i, j);
    }
  }
  CHECK(wrong == 0);
  Linear::Backward backward{};
  backward.dw = dw.view();
  backward.dbias = dbias.view();
  backward.dy = y;
  backward.x = x;
  ops::run(context, backward);
  CHECK(dw.values() == expected_dw);
  CHECK(dbias.values() == expected_dbias);
  Linear::Backward into_x{};
  into_x.dx = x;
  into_x.dy = y;
  into_x.w = w.view();
  ops::run(context, into_x);
  wrong = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (std::int64_t o = 0; o < columns; ++o) sum += at(y, i, o) * weight(o, j);
      wrong += at(x, i, j) == sum ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("linear: offsets past 2^31") {
  check_rows_far_apart<float>(3, (std::int64_t{1} << 31) + 7);
  check_rows_far_apart<double>(2, (std::int64_t{1} << 31) + 7);
  check_rows_far_apart<bf16>(3, (std::int64_t{1} << 32) + 1);
  check_rows_far_apart<f16>(2, (std::int64_t{1} << 32) + 1);
  // Sums over so many rows that a single tile's operands span more.
  check_rows_far_apart<float>(2500, std::int64_t{1} << 20);
  check_rows_far_apart<double>(2500, std::int64_t{1} << 20);
  check_rows_far_apart<bf16>(2500, std::int64_t{1} << 20);
}

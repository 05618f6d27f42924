// Tensors whose elements are further apart than 32 bits can count: the memory is reserved and only the rows are touched.
#include "engine/core/arena.h"
#include "engine/ops/activation.h"
#include "engine/ops/embedding.h"
#include "engine/ops/rmsnorm.h"
#include "tests/catch.h"
#include "tests/ops/device.h"
#include "tests/ops/guarded.h"

namespace oxrse::test {
namespace {

constexpr std::int64_t kApart = (std::int64_t{1} << 31) + 64;  // elements from row to row
constexpr std::int64_t kColumns = 48;

/// Two rows of a bf16 tensor, kApart elements from each other.
Tensor far_rows(Arena& arena) { return arena.make(DType::BF16, {2, kApart}, Memory::Workspace).slice(1, 0, kColumns); }

}  // namespace

TEST_CASE("rows more than 2^31 elements apart") {
  Arena arena = Arena::allocated(2 * 2 * kApart + (1 << 20), device_under_test().memory);
  Context context = context_for(DType::BF16);
  const Tensor table = far_rows(arena);
  const Tensor near = arena.make(DType::BF16, {2, kColumns}, Memory::Workspace);
  Guarded ids(DType::I32, {2}), w(DType::BF16, {kColumns}), rstd(DType::F32, {2});
  Values values(2 * kColumns), swapped;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i + 1);
  swapped.assign(values.begin() + kColumns, values.end());
  swapped.insert(swapped.end(), values.begin(), values.begin() + kColumns);
  ids.set(Values{1, 0});
  w.set(Values(kColumns, 2.0));
  for (std::int64_t n = 0; n < 2; ++n) {
    const Tensor row = table.slice(0, n, n + 1);
    for (std::int64_t c = 0; c < kColumns; ++c) row.data<bf16>()[c] = bf16(static_cast<float>(n * kColumns + c + 1));
  }

  ops::run(context, ops::Embedding{.y = near, .ids = ids.view(), .table = table});
  context.wait();
  for (std::int64_t i = 0; i < 2 * kColumns; ++i) CHECK(static_cast<float>(near.data<bf16>()[i]) == swapped[static_cast<std::size_t>(i)]);

  ops::run(context, ops::RmsNorm{.y = table, .rstd = rstd.view(), .x = table, .w = w.view()});
  ops::run(context, ops::Gelu{.y = near, .x = table});
  context.wait();
  // Row 1 holds 49 ... 96: its root mean square is close to 74.
  CHECK(static_cast<float>(table.slice(0, 1, 2).data<bf16>()[0]) == Approx(2 * 49 / 73.8).epsilon(0.01));
  CHECK(static_cast<float>(near.data<bf16>()[kColumns]) == Approx(1.204).epsilon(0.01));
}

}  // namespace oxrse::test

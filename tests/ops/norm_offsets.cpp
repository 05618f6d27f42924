// Norms of rows that lie further apart than 2^31 elements: the bits of the same rows side by side.
#include <cmath>
#include <string>

#include "engine/ops/layernorm.h"
#include "engine/ops/rmsnorm.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"
#include "tests/ops/sparse_memory.h"

namespace oxrse::test {
namespace {

constexpr std::int64_t kRows = 2, kColumns = 8;

/// x, y, dy and dx, two rows each.
struct Rows {
  Tensor x, y, dy, dx;
};

void fill(const Tensor& t, double seed) {
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kColumns; ++c) {
      t.data<float>()[r * t.stride(0) + c] = static_cast<float>(std::sin(seed + static_cast<double>(3 * r + c)));
    }
  }
}

Values values_of(const Tensor& t) {
  Values all;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kColumns; ++c) all.push_back(static_cast<double>(t.data<float>()[r * t.stride(0) + c]));
  }
  return all;
}

/// All results of both passes of both norms.
Values run_norms(const Rows& rows) {
  fill(rows.x, 1);
  fill(rows.dy, 2);
  Guarded w(DType::F32, {kColumns}), mean(DType::F32, {kRows}), rstd(DType::F32, {kRows}), dw(DType::F32, {kColumns});
  w.set(Values(kColumns, 0.75));
  Context context = context_for(DType::F32);
  Values all;
  const auto keep = [&](const Values& more) { all.insert(all.end(), more.begin(), more.end()); };
  const auto keep_all = [&] {
    context.wait();
    for (const Tensor& t : {rows.y, rows.dx}) keep(values_of(t));
    for (const Guarded* g : {&rstd, &dw}) keep(g->values());
  };
  ops::run(context, ops::RmsNorm{.y = rows.y, .rstd = rstd.view(), .x = rows.x, .w = w.view()});
  ops::run(context, ops::RmsNorm::Backward{.dx = rows.dx, .dw = dw.view(), .dy = rows.dy, .x = rows.x, .w = w.view(), .rstd = rstd.view()});
  keep_all();
  ops::run(context, ops::LayerNorm{.y = rows.y, .mean = mean.view(), .rstd = rstd.view(), .x = rows.x, .w = w.view()});
  ops::run(context,
           ops::LayerNorm::Backward{
               .dx = rows.dx, .dw = dw.view(), .dy = rows.dy, .x = rows.x, .w = w.view(), .mean = mean.view(), .rstd = rstd.view()});
  keep_all();
  return all;
}

}  // namespace

TEST_CASE("norms: offsets past 2^31") {
  const std::int64_t stride = (std::int64_t{1} << 31) + 3;
  const SparseMemory memory((stride + 4 * kColumns) * 4);
  const Tensor all = memory.view(DType::F32, {kRows, stride}, 4 * kColumns);
  const auto far = [&](std::int64_t i) { return all.slice(1, i * kColumns, (i + 1) * kColumns); };
  Guarded near[4];
  for (Guarded& g : near) g = Guarded(DType::F32, {kRows, kColumns});
  const Values expected = run_norms({near[0].view(), near[1].view(), near[2].view(), near[3].view()});
  for (const double v : expected) REQUIRE(std::isfinite(v));
  CHECK(run_norms({far(0), far(1), far(2), far(3)}) == expected);
}

}  // namespace oxrse::test

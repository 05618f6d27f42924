#include "engine/ops/linear.h"

#include <algorithm>

#include "engine/cpu/gemm.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/activation.h"

namespace oxrse::ops {
namespace {

/// to[j] = (or +=) sum_n dy[n, j]. Sums of 64 rows are added up one by one, which keeps the rounding error small.
template <class T>
void sum_rows(Cpu& cpu, const ConstTensor& dy, const Tensor& to, Write write) {
  using R = accumulator_t<T>;
  constexpr std::int64_t kColumns = 128, kRows = 64;
  const std::int64_t rows = dy.size(0);
  cpu::parallel_tiles(cpu, dy.size(1), kColumns, [&](std::int64_t begin, std::int64_t end) {
    R total[kColumns] = {};
    for (std::int64_t first = 0; first < rows; first += kRows) {
      R sum[kColumns] = {};
      for (std::int64_t n = first; n < std::min(rows, first + kRows); ++n) {
        const T* row = dy.data<T>() + n * dy.stride(0) + begin;
        for (std::int64_t j = 0; j < end - begin; ++j) sum[j] += static_cast<R>(row[j]);
      }
      for (std::int64_t j = 0; j < kColumns; ++j) total[j] += sum[j];
    }
    R* result = to.data<R>() + begin;
    for (std::int64_t j = 0; j < end - begin; ++j) result[j] = write == Write::Add ? result[j] + total[j] : total[j];
  });
}

}  // namespace

void launch(Cpu& cpu, const Linear& op) {
  cpu::gemm(cpu, {.c = op.y, .a = op.x, .b = op.w, .transpose_b = true, .bias = op.bias, .residual = op.residual});
  if (op.gelu.present()) launch(cpu, Gelu{.y = op.gelu, .x = op.y});
}

void launch(Cpu& cpu, const Linear::Backward& op) {
  if (op.dx.present()) cpu::gemm(cpu, {.c = op.dx, .a = op.dy, .b = op.w, .to_c = op.to_dx});
  if (op.before.present()) launch(cpu, Gelu::Backward{.dx = op.dx, .dy = op.dx, .x = op.before});
  if (op.dw.present()) cpu::gemm(cpu, {.c = op.dw, .a = op.dy, .b = op.x, .transpose_a = true, .to_c = op.to_dw});
  if (op.dbias.present()) {
    visit_floating(op.dy.dtype(), [&](auto tag) { sum_rows<typename decltype(tag)::type>(cpu, op.dy, op.dbias, op.to_dw); });
  }
}

}  // namespace oxrse::ops

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/ops/rmsnorm.h"
#include "tests/ops/harness.h"

// Cases of RMSNorm: for the op's tests, and for those of other kernels of the op.
namespace oxrse::test {

inline constexpr double kRmsNormEps = 1e-6;

/// A row of one element is +-1 but for eps: only a large one leaves a gradient to look at.
inline double rmsnorm_eps(std::int64_t columns) { return columns == 1 ? 0.5 : kRmsNormEps; }

/// x of sizes (N, C) or (N, H, C).
inline OpCase rmsnorm_case(const Sizes& sizes) {
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
                       .eps = rmsnorm_eps(columns)});
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

/// The formulas of forward and backward, for check_ratio.
inline auto rmsnorm_formula(std::size_t rows, std::size_t columns) {
  return [=]<class S>(const Named<S>& in) {
    using std::sqrt;
    const auto &x = in.at("x"), &w = in.at("w"), &dy = in.at("dy");
    std::vector<S> y(x.size()), dx(x.size()), dw(columns);
    const S count(static_cast<double>(columns));
    for (std::size_t n = 0; n < rows; ++n) {
      const std::size_t row = n * columns;
      S square = 0, mean = 0;
      for (std::size_t c = 0; c < columns; ++c) square += x[row + c] * x[row + c] / count;
      const S rstd = S(1) / sqrt(square + S(kRmsNormEps));
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

}  // namespace oxrse::test

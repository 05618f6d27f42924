#include "cuda/emulation/multiply.h"

#include <vector>

namespace oxrse::cuda_emulated {
namespace {

/// The (rows, columns) matrix op(X) as numbers in f64, column by column.
std::vector<double> widened(DType type, const void* data, bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  std::vector<double> result(static_cast<std::size_t>(rows * columns));
  visit_floating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* x = static_cast<const T*>(data);
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        result[static_cast<std::size_t>(j * rows + i)] = static_cast<float>(x[transposed ? i * leading + j : j * leading + i]);
      }
    }
  });
  return result;
}

}  // namespace

void reference_product(const cuda::Multiplication& p, const cuda::Operands& operands) {
  const std::vector<double> a = widened(p.type, operands.a, p.transpose_a, p.m, p.k, p.lda);
  const std::vector<double> b = widened(p.type, operands.b, p.transpose_b, p.k, p.n, p.ldb);
  const auto m = static_cast<std::size_t>(p.m), k = static_cast<std::size_t>(p.k);
  visit_floating(p.result, [&](auto tag) {
    using R = typename decltype(tag)::type;
    const auto* bias = static_cast<const R*>(operands.bias);
    std::vector<double> sums(m);
    for (std::int64_t j = 0; j < p.n; ++j) {
      for (std::size_t i = 0; i < m; ++i) sums[i] = p.bias ? static_cast<float>(bias[i]) : 0.0;
      for (std::size_t l = 0; l < k; ++l) {
        const double factor = b[static_cast<std::size_t>(j) * k + l];
        const double* column = a.data() + l * m;
        for (std::size_t i = 0; i < m; ++i) sums[i] += column[i] * factor;
      }
      const R* c = p.add ? static_cast<const R*>(operands.c) + j * p.ldc : nullptr;
      R* d = static_cast<R*>(operands.d) + j * p.ldd;
      for (std::size_t i = 0; i < m; ++i)
        d[i] = static_cast<R>(static_cast<float>(sums[i] + (c != nullptr ? static_cast<float>(c[i]) : 0.0F)));
    }
  });
}

}  // namespace oxrse::cuda_emulated

#include "cuda/emulation/multiply.h"

#include <cmath>
#include <vector>

namespace oxrse::cuda_emulated {
namespace {

using Activation = cuda::Multiplication::Activation;

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

// engine/ops/activation.h has the formulas.
constexpr double kRoot = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kCubic = 0.044715;

double gelu_tanh(double x) { return std::tanh(kRoot * (x + kCubic * x * x * x)); }
double gelu(double x) { return 0.5 * x * (1 + gelu_tanh(x)); }
double gelu_derivative(double x) {
  const double u = gelu_tanh(x);
  return 0.5 * (1 + u) + 0.5 * x * (1 - u * u) * kRoot * (1 + 3 * kCubic * x * x);
}

/// Column j of the result, of type R, from its sums.
template <class R>
void finish_column(const cuda::Multiplication& p, const cuda::Operands& operands, std::int64_t j, const std::vector<double>& sums) {
  const auto* c = p.add ? static_cast<const R*>(operands.c) + j * p.ldc : nullptr;
  auto* d = static_cast<R*>(operands.d) + j * p.ldd;
  auto* aux = p.activation != Activation::None ? static_cast<R*>(operands.aux) + j * p.ldaux : nullptr;
  const auto rounded = [](double x) { return static_cast<R>(static_cast<float>(x)); };
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double sum = sums[i] + (c != nullptr ? static_cast<float>(c[i]) : 0.0F);
    switch (p.activation) {
      case Activation::None: d[i] = rounded(sum); break;
      case Activation::Gelu:
        aux[i] = rounded(sum);
        d[i] = rounded(gelu(sum));
        break;
      case Activation::GeluGradient: d[i] = rounded(sum * gelu_derivative(static_cast<float>(aux[i]))); break;
    }
  }
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
      for (std::size_t i = 0; i < m; ++i) sums[i] = p.bias ? static_cast<float>(bias[i]) : 0.0F;
      for (std::size_t l = 0; l < k; ++l) {
        const double factor = b[static_cast<std::size_t>(j) * k + l];
        const double* column = a.data() + l * m;
        for (std::size_t i = 0; i < m; ++i) sums[i] += column[i] * factor;
      }
      finish_column<R>(p, operands, j, sums);
    }
  });
}

}  // namespace oxrse::cuda_emulated

#include "cuda/kernels/column_sums.h"

namespace oxrse::OXRSE_GPU {
namespace {

constexpr int kThreads = 128;

__global__ void add_up(float* to, bool add, const float* partials, std::int64_t rows, std::int64_t stride, std::int64_t columns) {
  const std::int64_t c = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (c >= columns) return;
  float sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) sum += partials[i * stride + c];
  to[c] = add ? to[c] + sum : sum;
}

}  // namespace

void sum_columns(Cuda& cuda, float* to, Write write, const float* partials, std::int64_t rows, std::int64_t stride, std::int64_t columns) {
  launch<add_up>(cuda, {.x = divide_up(columns, kThreads), .threads = kThreads}, to, write == Write::Add, partials, rows, stride, columns);
}

}  // namespace oxrse::OXRSE_GPU

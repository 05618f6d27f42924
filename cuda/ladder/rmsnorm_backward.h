#pragma once

#include "cuda/launch.h"
#include "cuda/rows.h"
#include "engine/ops/rmsnorm.h"

// What the rungs of RMSNorm's backward pass share: xhat = x*rstd, dx = rstd*(dy*w - xhat*mean_c(dy*w*xhat)), dw = sum_n dy*xhat.
namespace oxrse::OXRSE_GPU::ladder {

template <class T>
struct RmsNormGradient {
  Rows<T> dx;
  float* dw;
  Rows<const T> dy, x;
  const T* w;
  const float* rstd;
  bool add;  // to dx

  explicit RmsNormGradient(const ops::RmsNorm::Backward& op)
      : dx(op.dx),
        dw(op.dw.data<float>()),
        dy(op.dy),
        x(op.x),
        w(op.w.data<T>()),
        rstd(op.rstd.data<float>()),
        add(op.to_dx == Write::Add) {}

  /// dy*xhat: what an element adds to dw[c], and times w[c] to its row's mean.
  __device__ float weight_gradient(std::int64_t n, std::int64_t c) const { return widen(dy[n][c]) * (widen(x[n][c]) * rstd[n]); }
  __device__ void write_dx(std::int64_t n, std::int64_t c, float mean) const {
    const float gradient = rstd[n] * (widen(dy[n][c]) * widen(w[c]) - widen(x[n][c]) * rstd[n] * mean);
    dx[n][c] = narrow<T>(add ? widen(dx[n][c]) + gradient : gradient);
  }
};

/// Every thread has the columns from its own on, a stride of `threads` apart.
template <class F>
__device__ void for_strided_columns(std::int64_t columns, unsigned thread, unsigned threads, F f) {
  for (std::int64_t c = thread; c < columns; c += threads) f(c);
}

}  // namespace oxrse::OXRSE_GPU::ladder

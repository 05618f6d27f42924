#include "cuda/kernels/kernels.h"
#include "cuda/launch.h"
#include "cuda/rows.h"

// GELU and SwiGLU: one block a row, one pack of 16 bytes a thread and turn. Everything is read once and written once, so memory is the
// limit; backward computes sigmoids again instead of reading them.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr float kRoot = 0.79788456080286535588F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

__device__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
/// (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps its digits in the left tail.
__device__ float share_of_gelu(float x) { return sigmoid(2.0F * kRoot * (x + kCubic * x * x * x)); }

template <class T>
__global__ void gelu(Rows<T> y, Rows<const T> x) {
  const std::int64_t n = blockIdx.x;
  for_packs<T>(x.columns, [&](std::int64_t c) {
    Pack<T> p = load(x[n], c, x.columns, x.aligned);
    for (float& v : p.v) v *= share_of_gelu(v);
    store(y[n], c, x.columns, y.aligned, p);
  });
}

template <class T>
__global__ void gelu_backward(Rows<T> dx, Rows<const T> dy, Rows<const T> x) {
  const std::int64_t n = blockIdx.x;
  for_packs<T>(x.columns, [&](std::int64_t c) {
    const Pack<T> p = load(x[n], c, x.columns, x.aligned);
    Pack<T> d = load(dy[n], c, x.columns, dy.aligned);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      const float v = p.v[i], s = share_of_gelu(v);
      d.v[i] *= s + 2.0F * v * s * (1.0F - s) * kRoot * (1.0F + 3.0F * kCubic * v * v);
    }
    store(dx[n], c, x.columns, dx.aligned, d);
  });
}

template <class T>
__global__ void swiglu(Rows<T> y, Rows<const T> gate, Rows<const T> up) {
  const std::int64_t n = blockIdx.x;
  for_packs<T>(gate.columns, [&](std::int64_t c) {
    const Pack<T> g = load(gate[n], c, gate.columns, gate.aligned);
    Pack<T> u = load(up[n], c, gate.columns, up.aligned);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) u.v[i] *= g.v[i] * sigmoid(g.v[i]);
    store(y[n], c, gate.columns, y.aligned, u);
  });
}

template <class T>
__global__ void swiglu_backward(Rows<T> dgate, Rows<T> dup, Rows<const T> dy, Rows<const T> gate, Rows<const T> up) {
  const std::int64_t n = blockIdx.x;
  for_packs<T>(gate.columns, [&](std::int64_t c) {
    Pack<T> g = load(gate[n], c, gate.columns, gate.aligned);
    Pack<T> u = load(up[n], c, gate.columns, up.aligned);
    const Pack<T> d = load(dy[n], c, gate.columns, dy.aligned);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      const float z = g.v[i], s = sigmoid(z);
      g.v[i] = d.v[i] * u.v[i] * s * (1.0F + z * (1.0F - s));
      u.v[i] = d.v[i] * z * s;
    }
    store(dgate[n], c, gate.columns, dgate.aligned, g);
    store(dup[n], c, gate.columns, dup.aligned, u);
  });
}

template <class T>
Grid grid_of(const ConstTensor& x) {
  return {.x = x.size(0), .threads = threads_for_row<T>(x.size(1))};
}

}  // namespace

void launch(Cuda& cuda, const Gelu& op) {
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<gelu<T>>(cuda, grid_of<T>(op.x), Rows<T>(op.y), Rows<const T>(op.x));
  });
}

void launch(Cuda& cuda, const Gelu::Backward& op) {
  visit_compute(op.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<gelu_backward<T>>(cuda, grid_of<T>(op.x), Rows<T>(op.dx), Rows<const T>(op.dy), Rows<const T>(op.x));
  });
}

void launch(Cuda& cuda, const SwiGlu& op) {
  visit_compute(op.gate.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<swiglu<T>>(cuda, grid_of<T>(op.gate), Rows<T>(op.y), Rows<const T>(op.gate), Rows<const T>(op.up));
  });
}

void launch(Cuda& cuda, const SwiGlu::Backward& op) {
  visit_compute(op.gate.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<swiglu_backward<T>>(cuda, grid_of<T>(op.gate), Rows<T>(op.dgate), Rows<T>(op.dup), Rows<const T>(op.dy), Rows<const T>(op.gate),
                               Rows<const T>(op.up));
  });
}

}  // namespace oxrse::OXRSE_GPU

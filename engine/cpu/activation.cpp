#include "engine/ops/activation.h"

#include "engine/cpu/convert.h"
#include "engine/cpu/math.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"

namespace oxrse::ops {
namespace {

constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

/// (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2: by the sigmoid, it keeps its relative accuracy where tanh is close to -1.
template <class A>
A gelu_gate(A x) {
  return cpu::sigmoid(static_cast<A>(2 * kSqrt2OverPi) * (x + static_cast<A>(kCubic) * x * x * x));
}

/// d/dx of x * gelu_gate(x): with s the gate, 1 - u^2 = 4 s (1 - s).
template <class A>
A gelu_slope(A x) {
  const A s = gelu_gate(x);
  const A inner = static_cast<A>(2 * kSqrt2OverPi) * (1 + static_cast<A>(3 * kCubic) * x * x);
  return s + x * s * (1 - s) * inner;
}

template <class T>
void gelu(const Cpu& cpu, const Gelu& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<const T> x(op.x);
  const cpu::Rows<T> y(op.y);
  cpu::parallel_tiles(cpu, x.count(), cpu::rows_of_tile(x.columns()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T* xn = x[n];
      T* yn = y[n];
#pragma omp simd
      for (std::int64_t i = 0; i < x.columns(); ++i) {
        const auto v = static_cast<A>(xn[i]);
        yn[i] = cpu::convert<T>(v * gelu_gate(v));
      }
    }
  });
}

template <class T>
void gelu_backward(const Cpu& cpu, const Gelu::Backward& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<const T> x(op.x);
  const cpu::Rows<const T> dy(op.dy);
  const cpu::Rows<T> dx(op.dx);
  cpu::parallel_tiles(cpu, x.count(), cpu::rows_of_tile(x.columns()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T* xn = x[n];
      const T* dyn = dy[n];
      T* dxn = dx[n];
#pragma omp simd
      for (std::int64_t i = 0; i < x.columns(); ++i) dxn[i] = cpu::convert<T>(static_cast<A>(dyn[i]) * gelu_slope(static_cast<A>(xn[i])));
    }
  });
}

template <class T>
void swiglu(const Cpu& cpu, const SwiGlu& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<const T> gate(op.gate);
  const cpu::Rows<const T> up(op.up);
  const cpu::Rows<T> y(op.y);
  cpu::parallel_tiles(cpu, y.count(), cpu::rows_of_tile(y.columns()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T* gate_n = gate[n];
      const T* up_n = up[n];
      T* yn = y[n];
#pragma omp simd
      for (std::int64_t i = 0; i < y.columns(); ++i) {
        const auto z = static_cast<A>(gate_n[i]);
        yn[i] = cpu::convert<T>(z * cpu::sigmoid(z) * static_cast<A>(up_n[i]));
      }
    }
  });
}

template <class T>
void swiglu_backward(const Cpu& cpu, const SwiGlu::Backward& op) {
  using A = accumulator_t<T>;
  const cpu::Rows<const T> gate(op.gate);
  const cpu::Rows<const T> up(op.up);
  const cpu::Rows<const T> dy(op.dy);
  const cpu::Rows<T> dgate(op.dgate);
  const cpu::Rows<T> dup(op.dup);
  cpu::parallel_tiles(cpu, dy.count(), cpu::rows_of_tile(dy.columns()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T* gate_n = gate[n];
      const T* up_n = up[n];
      const T* dyn = dy[n];
      T* dgate_n = dgate[n];
      T* dup_n = dup[n];
#pragma omp simd
      for (std::int64_t i = 0; i < dy.columns(); ++i) {
        const auto z = static_cast<A>(gate_n[i]);
        const auto u = static_cast<A>(up_n[i]);
        const auto d = static_cast<A>(dyn[i]);
        const A s = cpu::sigmoid(z);
        dup_n[i] = cpu::convert<T>(d * z * s);
        dgate_n[i] = cpu::convert<T>(d * u * s * (1 + z * (1 - s)));
      }
    }
  });
}

}  // namespace

void launch(Cpu& cpu, const Gelu& op) {
  visit_floating(op.x.dtype(), [&](auto tag) { gelu<typename decltype(tag)::type>(cpu, op); });
}

void launch(Cpu& cpu, const Gelu::Backward& op) {
  visit_floating(op.x.dtype(), [&](auto tag) { gelu_backward<typename decltype(tag)::type>(cpu, op); });
}

void launch(Cpu& cpu, const SwiGlu& op) {
  visit_floating(op.gate.dtype(), [&](auto tag) { swiglu<typename decltype(tag)::type>(cpu, op); });
}

void launch(Cpu& cpu, const SwiGlu::Backward& op) {
  visit_floating(op.gate.dtype(), [&](auto tag) { swiglu_backward<typename decltype(tag)::type>(cpu, op); });
}

}  // namespace oxrse::ops

#include <cmath>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/tensor_list.h"
#include "cuda/rows.h"

// Updates of many parameters in one launch (tensor_list.h). AdamW moves 28 bytes a parameter with f32 state and 16-bit weights: memory is
// the limit. Corrections that need powers and roots in f64 are computed by one thread of a block, for all.
namespace oxrse::OXRSE_GPU {
namespace {

using namespace ops;

constexpr int kThreads = 256;

template <class A>
struct Parameter {
  A* weight = nullptr;
  std::byte* compute = nullptr;
  const A* gradient = nullptr;
  A* first = nullptr;
  A* second = nullptr;
  std::int64_t count = 0;
  DType compute_type = DType::None;
  bool decay = false;
};

template <class A>
__device__ void write_compute(const Parameter<A>& p, std::int64_t i, A weight) {
  switch (p.compute_type) {
    case DType::F64: reinterpret_cast<double*>(p.compute)[i] = narrow<double>(weight); break;
    case DType::F32: reinterpret_cast<float*>(p.compute)[i] = narrow<float>(weight); break;
    case DType::BF16: reinterpret_cast<bf16*>(p.compute)[i] = narrow<bf16>(weight); break;
    case DType::F16: reinterpret_cast<f16*>(p.compute)[i] = narrow<f16>(weight); break;
    default: break;
  }
}

struct AdamWSettings {
  double lr, beta1, beta2, eps, weight_decay;
};

/// The numbers of a step, computed in f64 and rounded once.
template <class A>
struct AdamWStep {
  A factor, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step, root_correction, eps;
};

template <class A>
__device__ AdamWStep<A> step_of(const AdamWSettings& s, const double* control) {
  const double t = control[kUpdates];
  return {.factor = static_cast<A>(control[kFactor]),
          .decay = static_cast<A>(s.lr * s.weight_decay),
          .beta1 = static_cast<A>(s.beta1),
          .one_minus_beta1 = static_cast<A>(1 - s.beta1),
          .beta2 = static_cast<A>(s.beta2),
          .one_minus_beta2 = static_cast<A>(1 - s.beta2),
          .step = static_cast<A>(s.lr / (1 - pow(s.beta1, t))),
          .root_correction = static_cast<A>(1 / sqrt(1 - pow(s.beta2, t))),  // sqrt(v / (1-beta2^t)) = sqrt(v) * this
          .eps = static_cast<A>(s.eps)};
}

template <class A>
__global__ void adamw(TensorList<Parameter<A>> list, const double* control, AdamWSettings settings) {
  if (control[kApply] == 0) return;
  AdamWStep<A>& shared = *shared_memory<AdamWStep<A>>();
  if (threadIdx.x == 0) shared = step_of<A>(settings, control);
  __syncthreads();
  const AdamWStep<A> s = shared;
  for_tile(list, [&](const Parameter<A>& p, std::int64_t i) {
    const A g = s.factor * p.gradient[i];
    const A m = s.beta1 * p.first[i] + s.one_minus_beta1 * g;
    const A v = s.beta2 * p.second[i] + s.one_minus_beta2 * g * g;
    const A decayed = p.weight[i] - (p.decay ? s.decay : A(0)) * p.weight[i];
    const A weight = decayed - s.step * m / (std::sqrt(v) * s.root_correction + s.eps);
    p.first[i] = m;
    p.second[i] = v;
    p.weight[i] = weight;
    write_compute(p, i, weight);
  });
}

template <class A>
__global__ void sgd(TensorList<Parameter<A>> list, const double* control, A lr, A momentum, A weight_decay) {
  if (control[kApply] == 0) return;
  const A factor = static_cast<A>(control[kFactor]);
  for_tile(list, [&](const Parameter<A>& p, std::int64_t i) {
    A g = factor * p.gradient[i] + (p.decay ? weight_decay : A(0)) * p.weight[i];
    if (p.first != nullptr) p.first[i] = g = momentum * p.first[i] + g;
    const A weight = p.weight[i] - lr * g;
    p.weight[i] = weight;
    write_compute(p, i, weight);
  });
}

/// One draw of eight halves a thread.
__global__ void round_at_random(bf16* y, const float* x, std::int64_t count, const double* control, std::uint64_t seed,
                                std::uint64_t stream, std::int64_t first_draw) {
  constexpr std::int64_t kHalves = 8;
  const std::int64_t draw = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (draw * kHalves >= count) return;
  const auto updates = static_cast<std::uint64_t>(control[kUpdates]);
  const auto words = RandomStream(seed + updates * 0x9E3779B97F4A7C15U, stream).words(static_cast<std::uint64_t>(first_draw + draw));
  for (std::int64_t i = 0; i < kHalves && draw * kHalves + i < count; ++i) {
    const std::uint32_t word = words[static_cast<std::size_t>(i / 2)], half = i % 2 == 0 ? word & 0xffffU : word >> 16U;
    const std::uint32_t bits = bits_of(x[draw * kHalves + i]);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    y[draw * kHalves + i].bits = static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : bits + half) >> 16U);
  }
}

/// Calls launch(list) for the parameters whose weights are of type A, as many at a time as a list holds.
template <class A, class Launch>
void for_lists(std::span<const ParameterSlice> parameters, const Launch& launch) {
  TensorList<Parameter<A>> list;
  for (const ParameterSlice& p : parameters) {
    if (p.weight.dtype() != dtype_of<A>) continue;
    list.add({.weight = p.weight.data<A>(),
              .compute = p.compute.address(),
              .gradient = p.gradient.data<A>(),
              .first = p.first.present() ? p.first.data<A>() : nullptr,
              .second = p.second.present() ? p.second.data<A>() : nullptr,
              .count = p.weight.count(),
              .compute_type = p.compute.dtype(),
              .decay = p.decay});
    if (!list.full()) continue;
    launch(list);
    list = {};
  }
  launch(list);
}

template <class A>
void launch_adamw(Cuda& cuda, const AdamW& op) {
  const AdamWSettings settings{op.lr, op.beta1, op.beta2, op.eps, op.weight_decay};
  for_lists<A>(op.parameters, [&](const auto& list) {
    launch<adamw<A>>(cuda, {.x = list.tiles(), .threads = kThreads, .shared = sizeof(AdamWStep<A>)}, list, op.control.data<double>(),
                     settings);
  });
}

template <class A>
void launch_sgd(Cuda& cuda, const Sgd& op) {
  for_lists<A>(op.parameters, [&](const auto& list) {
    launch<sgd<A>>(cuda, {.x = list.tiles(), .threads = kThreads}, list, op.control.data<double>(), op.lr, op.momentum, op.weight_decay);
  });
}

}  // namespace

void launch(Cuda& cuda, const AdamW& op) {
  launch_adamw<float>(cuda, op);
  launch_adamw<double>(cuda, op);
}

void launch(Cuda& cuda, const Sgd& op) {
  launch_sgd<float>(cuda, op);
  launch_sgd<double>(cuda, op);
}

void launch(Cuda& cuda, const RoundAtRandom& op) {
  constexpr std::int64_t kElements = 8 * kThreads;
  launch<round_at_random>(cuda, {.x = divide_up(op.x.count(), kElements), .threads = kThreads}, op.y.data<bf16>(), op.x.data<float>(),
                          op.x.count(), op.control.data<double>(), op.seed, op.stream, op.first_element / 8);
}

}  // namespace oxrse::OXRSE_GPU

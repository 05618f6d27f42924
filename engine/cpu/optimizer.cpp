#include "engine/ops/optimizer.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/convert.h"
#include "engine/cpu/parallel.h"

namespace oxrse::ops {
namespace {

constexpr std::int64_t kTile = 16384;

/// Elements [begin, end) of tensor `index`.
struct Tile {
  std::int64_t index, begin, end;
};

std::int64_t tiles_of(std::int64_t count) { return cpu::divide_up(count, kTile); }

/// The tiles of tensors of count(i) elements, i < tensors, one after the other.
template <class Count>
std::int64_t count_tiles(std::int64_t tensors, const Count& count) {
  std::int64_t tiles = 0;
  for (std::int64_t i = 0; i < tensors; ++i) tiles += tiles_of(count(i));
  return tiles;
}
template <class Count>
void list_tiles(Tile* tiles, std::int64_t tensors, const Count& count) {
  for (std::int64_t i = 0; i < tensors; ++i) {
    for (std::int64_t begin = 0; begin < count(i); begin += kTile) *tiles++ = {i, begin, std::min(count(i), begin + kTile)};
  }
}

template <class T>
double sum_squares(const T* x, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    const auto v = cpu::convert<double>(x[i]);
    sum += v * v;
  }
  return sum;
}

/// Calls update(parameter, begin, end) for all tiles of all parameters, from all threads.
template <class Update>
void for_each_tile(const Cpu& cpu, std::span<const ParameterSlice> parameters, const Update& update) {
  const auto tensors = static_cast<std::int64_t>(parameters.size());
  const auto count = [&](std::int64_t i) { return parameters[static_cast<std::size_t>(i)].weight.count(); };
  const std::int64_t tiles = count_tiles(tensors, count);
  const cpu::Scratch<Tile> list(tiles);
  list_tiles(list.data(), tensors, count);
  cpu::parallel_for(cpu, tiles,
                    [&](std::int64_t t) { update(parameters[static_cast<std::size_t>(list[t].index)], list[t].begin, list[t].end); });
}

/// Writes the weights once more in the compute type where the parameter has one, while they are in the cache.
template <class A>
void write_compute(const ParameterSlice& p, const A* weight, std::int64_t begin, std::int64_t end) {
  if (!p.compute.present()) return;
  visit_floating(p.compute.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* compute = p.compute.data<T>();
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) compute[i] = cpu::convert<T>(weight[i]);
  });
}

/// The numbers of a step of AdamW, computed in double and rounded once.
template <class A>
struct AdamWStep {
  A factor, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step, root_correction, eps;

  explicit AdamWStep(const AdamW& op) {
    const auto* control = op.control.data<double>();
    const double t = control[kUpdates];
    factor = static_cast<A>(control[kFactor]);
    decay = static_cast<A>(op.lr * op.weight_decay);
    beta1 = static_cast<A>(op.beta1);
    one_minus_beta1 = static_cast<A>(1 - op.beta1);
    beta2 = static_cast<A>(op.beta2);
    one_minus_beta2 = static_cast<A>(1 - op.beta2);
    step = static_cast<A>(op.lr / (1 - std::pow(op.beta1, t)));
    root_correction = static_cast<A>(1 / std::sqrt(1 - std::pow(op.beta2, t)));  // sqrt(v / (1-beta2^t)) = sqrt(v) * this
    eps = static_cast<A>(op.eps);
  }
};

template <class A>
void adamw(const AdamWStep<A>& s, const ParameterSlice& p, std::int64_t begin, std::int64_t end) {
  A* weight = p.weight.data<A>();
  A* first = p.first.data<A>();
  A* second = p.second.data<A>();
  const A* gradient = p.gradient.data<A>();
  const A decay = p.decay ? s.decay : A(0);
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const A g = s.factor * gradient[i];
    const A m = s.beta1 * first[i] + s.one_minus_beta1 * g;
    const A v = s.beta2 * second[i] + s.one_minus_beta2 * g * g;
    const A w = weight[i] - decay * weight[i];
    first[i] = m;
    second[i] = v;
    weight[i] = w - s.step * m / (std::sqrt(v) * s.root_correction + s.eps);
  }
  write_compute(p, weight, begin, end);
}

template <class A>
void sgd(const Sgd& op, const ParameterSlice& p, std::int64_t begin, std::int64_t end) {
  A* weight = p.weight.data<A>();
  const A* gradient = p.gradient.data<A>();
  const auto factor = static_cast<A>(op.control.data<double>()[kFactor]);
  const auto decay = static_cast<A>(p.decay ? op.weight_decay : 0);
  const auto momentum = static_cast<A>(op.momentum);
  const auto lr = static_cast<A>(op.lr);
  if (p.first.present()) {
    A* buffer = p.first.data<A>();
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      buffer[i] = momentum * buffer[i] + (factor * gradient[i] + decay * weight[i]);
      weight[i] -= lr * buffer[i];
    }
  } else {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) weight[i] -= lr * (factor * gradient[i] + decay * weight[i]);
  }
  write_compute(p, weight, begin, end);
}

bool applies(const ConstTensor& control) { return control.data<double>()[kApply] != 0; }

}  // namespace

void launch(Cpu& cpu, const SumSquares& op) {
  const auto tensors = static_cast<std::int64_t>(op.tensors.size());
  const auto tensor = [&](std::int64_t i) -> const ConstTensor& { return op.tensors[static_cast<std::size_t>(i)]; };
  const auto count = [&](std::int64_t i) { return tensor(i).count(); };
  const std::int64_t tiles = count_tiles(tensors, count);
  const cpu::Scratch<Tile> list(tiles);
  const cpu::Scratch<double> partials(tiles);
  list_tiles(list.data(), tensors, count);
  cpu::parallel_for(cpu, tiles, [&](std::int64_t t) {
    const Tile& tile = list[t];
    visit_floating(tensor(tile.index).dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      partials[t] = sum_squares(tensor(tile.index).template data<T>() + tile.begin, tile.end - tile.begin);
    });
  });
  auto* sums = op.sums.data<double>();
  std::fill_n(sums, tensors, 0.0);
  for (std::int64_t t = 0; t < tiles; ++t) sums[list[t].index] += partials[t];
}

void launch(Cpu& /*cpu*/, const ClipFactor& op) {
  auto* control = op.control.data<double>();
  const auto* sums = op.sums.data<double>();
  double sum = 0;
  for (std::int64_t i = 0; i < op.sums.count(); ++i) sum += sums[i];
  const double norm = std::sqrt(sum) * op.unscale;
  const bool apply = std::isfinite(norm);
  control[kNorm] = norm;
  control[kFactor] = op.unscale * (op.clip > 0 ? std::min(1.0, op.clip / (norm + 1e-6)) : 1.0);
  control[kApply] = apply ? 1 : 0;
  control[kUpdates] += apply ? 1 : 0;
}

void launch(Cpu& cpu, const AdamW& op) {
  if (!applies(op.control)) return;
  const AdamWStep<float> in_f32(op);
  const AdamWStep<double> in_f64(op);
  for_each_tile(cpu, op.parameters, [&](const ParameterSlice& p, std::int64_t begin, std::int64_t end) {
    if (p.weight.dtype() == DType::F64) {
      adamw(in_f64, p, begin, end);
    } else {
      adamw(in_f32, p, begin, end);
    }
  });
}

void launch(Cpu& cpu, const Sgd& op) {
  if (!applies(op.control)) return;
  for_each_tile(cpu, op.parameters, [&](const ParameterSlice& p, std::int64_t begin, std::int64_t end) {
    if (p.weight.dtype() == DType::F64) {
      sgd<double>(op, p, begin, end);
    } else {
      sgd<float>(op, p, begin, end);
    }
  });
}

}  // namespace oxrse::ops

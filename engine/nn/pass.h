#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/context.h"
#include "engine/core/philox.h"
#include "engine/nn/gradients.h"
#include "engine/nn/parameters.h"

namespace oxrse::nn {

/// B rows of T tokens, flattened to N = B*T.
struct Batch {
  std::int64_t rows = 0;       // B
  std::int64_t length = 0;     // T
  ConstTensor tokens;          // (N) i32
  ConstTensor targets;         // (N) i32, -1 is ignored; absent when only decoding
  ConstTensor positions;       // (N) i32
  ConstTensor document_start;  // (B, T) i32, the first position that each token sees; absent when rows are one document
  std::int64_t first_row = 0;  // index of the first row in the global batch of the step

  [[nodiscard]] std::int64_t count() const { return rows * length; }
};

/// What a forward or backward pass needs besides its tensors.
struct Pass {
  Context& context;
  const ParameterStore& parameters;
  const Batch& batch;
  Gradients* gradients = nullptr;  // absent: only the forward pass is run, and nothing is kept for backward
  ConstTensor rope_table = {};     // (context, D), absent without rotary positions
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  double loss_scale = 1;

  [[nodiscard]] bool training() const { return gradients != nullptr; }
  [[nodiscard]] ConstTensor gather(ParameterId id) const { return parameters.gather(id); }

  /// The random stream of one place in the model at this step.
  [[nodiscard]] RandomStream random(std::string_view place) const {
    return {seed + static_cast<std::uint64_t>(step) * 0x9E3779B97F4A7C15U, stream_of(place)};
  }

  /// Room for an activation or scratch in the compute type, and for statistics.
  [[nodiscard]] Tensor make(std::initializer_list<std::int64_t> sizes, Memory kind = Memory::Activations) const {
    return context.arena->make(parameters.compute_type(), sizes, kind);
  }
  [[nodiscard]] Tensor make_statistics(std::initializer_list<std::int64_t> sizes, Memory kind = Memory::Activations) const {
    return context.arena->make(accumulator_of(parameters.compute_type()), sizes, kind);
  }
};

}  // namespace oxrse::nn

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/core/json.h"
#include "engine/core/tensor.h"
#include "io/checkpoint/region.h"

namespace oxrse::io {

/// A tensor to save, or the part of one that this rank has.
struct CheckpointEntry {
  std::string name;    // the logical parameter: "blocks.3.attention.qkv.weight"
  std::string part;    // "model": compute weights that have no master copy; "master", "exp_avg", "momentum", ...: the optimizer's
  ConstTensor tensor;  // contiguous, of a floating type
  std::function<void(const Tensor&)> fill = {};       // when set, makes the elements when they are written; `tensor` only says type, shape
  std::optional<Placement> placement = std::nullopt;  // absent: `tensor` is the whole tensor

  [[nodiscard]] std::string label() const { return name + " (" + part + ")"; }
  /// Where it belongs.
  [[nodiscard]] Placement place() const {
    if (placement) return *placement;
    return {{tensor.sizes().begin(), tensor.sizes().end()}, Region::whole(tensor.sizes())};
  }
};

/// Everything else that is saved.
struct CheckpointState {
  std::int64_t step = 0;
  Json state = Json::object();   // "rng", "sampler", "schedule", "scaler", "counters", ...: a small value each
  Json config = Json::object();  // the effective config
  std::string tokenizer_json;    // empty without a tokenizer
  bool weights_only = false;     // the optimizer's tensors are not saved: for evaluation, a run cannot go on from it
};

/// One of the ranks that write a checkpoint together.
struct Writer {
  std::int64_t rank = 0;
  std::int64_t count = 1;
};

}  // namespace oxrse::io

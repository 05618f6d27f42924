#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "engine/core/json.h"
#include "engine/core/tensor.h"
#include "io/checkpoint/directory.h"

namespace oxrse::io {

/// A tensor to save.
struct CheckpointEntry {
  std::string name;  // the logical parameter: "blocks.3.attention.qkv.weight"
  std::string
      part;  // "model": compute weights that have no master copy; "master", "exp_avg", "exp_avg_sq", "momentum", ...: the optimizer's
  ConstTensor tensor;  // contiguous, of a floating type
  std::function<void(const Tensor&)> fill =
      {};  // when set, makes the elements when they are written; `tensor` then only says type and shape
};

/// Everything else that is saved.
struct CheckpointState {
  std::int64_t step = 0;
  Json state = Json::object();   // "rng", "sampler", "schedule", "scaler", "counters", ...: a small value each
  Json config = Json::object();  // the effective config
  std::string tokenizer_json;    // empty without a tokenizer
};

/// Saves the checkpoint checkpoints/step_0000000200/ and makes it the latest one, then removes older ones beyond `keep` (0 keeps
/// all). On return it is on the disk. At any time, also after a kill or a full disk, every checkpoint that was there before is whole.
/// A different checkpoint of the same step, which an earlier run left, is renamed to step_0000000200.older and `warn` told.
/// An Error says what could not be written; then nothing has changed.
void save_checkpoint(const std::filesystem::path& checkpoints, const CheckpointState& state, std::span<const CheckpointEntry> entries,
                     std::int64_t keep, const Warn& warn);

}  // namespace oxrse::io

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/nn/model.h"
#include "engine/train/evaluation.h"
#include "engine/train/machine.h"
#include "engine/train/sampling.h"
#include "io/checkpoint/checkpoint.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::train {

/// The model object in the config of a checkpoint.
Json model_of_checkpoint(const io::Checkpoint& checkpoint);

/// A model from a checkpoint, for generating and evaluating.
class LoadedModel {
 public:
  /// `path` is a step, checkpoints or run directory. Plans first for batches of `shape` (rows 0: only generating; length 0: as it was
  /// trained), then allocates just that. Computes in the type the checkpoint was trained in, on `threads` threads.
  LoadedModel(const std::string& path, BatchShape shape, int threads = cpu_threads());

  [[nodiscard]] const nn::ModelConfig& config() const { return config_; }
  [[nodiscard]] const io::Checkpoint& checkpoint() const { return checkpoint_; }
  /// Absent for a model that was trained on token shards.
  [[nodiscard]] const io::Tokenizer* tokenizer() const { return tokenizer_.get(); }
  [[nodiscard]] Generator generator() { return {context_, store_, *model_}; }
  /// Ranks, where there are several, share the work and get the same result.
  Evaluation evaluate(const io::Dataset& data, std::int64_t samples, comm::Communicator* ranks = nullptr) {
    return train::evaluate(context_, store_, *model_, shape_, &data, samples, ranks);
  }
  /// Names of the weights, as the passes read them, that hold NaN or infinity.
  [[nodiscard]] std::vector<std::string> not_finite() const;
  /// The length and number of rows that evaluate() uses, and whether the model was trained on documents kept apart.
  [[nodiscard]] const BatchShape& shape() const { return shape_; }

 private:
  io::Checkpoint checkpoint_;
  nn::ModelConfig config_;
  BatchShape shape_;
  std::unique_ptr<io::Tokenizer> tokenizer_;
  std::optional<Arena> arena_;
  Context context_;
  nn::ParameterStore store_;
  std::optional<nn::Model> model_;
};

}  // namespace oxrse::train

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/train/training.h"
#include "io/checkpoint/checkpoint.h"

namespace oxrse::train {

/// Where a run stands, besides its tensors.
struct Progress {
  std::int64_t step = 0;     // steps taken, skipped ones included: the samples of the data that were used
  std::int64_t skipped = 0;  // steps whose gradient was not finite
  std::int64_t skipped_in_a_row = 0;
};

/// Refuses, by name, a state with a number that is not finite: it must not take the place of a good one.
void require_finite(std::span<const io::CheckpointEntry> entries);

/// The tensors of a checkpoint: weights (or masters) and, unless `weights_only`, the optimizer's state in the types that the config says.
std::vector<io::CheckpointEntry> checkpoint_entries(Training& training, const io::CheckpointConfig& config, bool weights_only = false);

/// What this rank writes of them when all ranks save together: what it owns, or its share of what all have.
std::vector<io::CheckpointEntry> entries_to_save(Training& training, const io::CheckpointConfig& config, bool weights_only = false);

/// The small values of a checkpoint. `data` may be absent.
Json checkpoint_state(Training& training, const Progress& progress, const Config& config, const io::Dataset* data);

/// Takes everything from a checkpoint of the same run: weights, optimizer, progress. With a shared optimizer, Training::share_weights must
/// follow on all ranks. An Error names what does not fit, before anything
/// is changed for a wrong dataset or optimizer.
Progress restore(Training& training, const io::Checkpoint& checkpoint, const io::Dataset* data);

/// Which of a checkpoint's files `restore` reads on this rank.
std::vector<bool> files_to_restore(Training& training, const io::Manifest& manifest);

/// Takes only the weights, whatever type they were saved in.
void load_weights(Context& context, nn::ParameterStore& store, const io::Checkpoint& checkpoint);

}  // namespace oxrse::train

#pragma once

#include <cstdint>
#include <string>

#include "engine/core/context.h"
#include "engine/parallel/group.h"
#include "engine/train/config.h"

namespace oxrse::train {

/// What a step takes, found by executing it in Plan mode.
struct Plan {
  nn::ModelConfig model;
  std::int64_t parameters = 0;
  int ranks = 1;                         // what follows is of one of them
  MemoryUse memory;                      // at the moment of the largest total
  std::int64_t saved_bytes = 0;          // tensors of a checkpoint
  std::int64_t own_bytes = 0;            // those that this rank saves
  std::int64_t snapshot_bytes = 0;       // copies of what is saved while training goes on
  bool linked = false;                   // ranks communicate from the memory of their devices
  std::int64_t communication_bytes = 0;  // scratch of sums over ranks, at the most, in that memory
  std::int64_t peer_bytes = 0;           // copies of checkpoints in the memory of the node, at the most
  std::int64_t process_bytes = 0;        // program, libraries and their scratch, outside the arena
  OpLog ops;                             // of one training step
  double tokens = 0;                     // of a step of all ranks
  double model_flops = 0;                // of a step, without recomputation: what "model FLOPs utilisation" counts

  [[nodiscard]] std::int64_t total_bytes() const {
    return memory.total() + snapshot_bytes + peer_bytes + communication_bytes + process_bytes;
  }
};

/// Plans the training (step, evaluation, samples) of `config` with the resolved `model`, of one rank of `group`.
Plan make_plan(const Config& config, const nn::ModelConfig& model, const parallel::Group& group = {});

/// The plan as text: parameters, memory by kind, FLOPs, and with `list_ops` one line for every op and shape.
std::string describe(const Plan& plan, const Config& config, bool list_ops);

/// Throws when the plan needs more memory than this machine, or the device for its tensors, can give, naming the settings to lower.
void require_fits(const Plan& plan, const Config& config, Device* device = nullptr);

/// "1.2 GiB", "48.0 KiB"; "1.24e+15" and "124.4M" for counts.
std::string format_bytes(double bytes);
std::string format_count(double count);

}  // namespace oxrse::train

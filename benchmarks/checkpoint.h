#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/core/json.h"
#include "engine/nn/model_config.h"

namespace oxrse::bench {

/// Seconds that checkpoints of a state take, each beside the least that could be done for the same bytes; medians.
struct CheckpointResult {
  std::int64_t bytes = 0;            // of the state: masters and AdamW's moments in f32
  double save = 0, plain_write = 0;  // to the disk; write() and fsync of as many bytes
  double load = 0, plain_read = 0;   // with checksums, from files that are not in the cache; read() of the file
  double reshard_load = 0;           // 3 ranks, side by side, from the shards of 2; the slowest
  double stall = 0, copy = 0;        // the snapshot of an asynchronous save; one memcpy a thread, into memory that was used before
  double checksums = 0;              // of the bytes of the tensors alone, while they are in memory
  std::int64_t rounds = 0;
};

/// Saves and loads a state of this model in a directory made in `directory`, which is removed. `threads` copy.
CheckpointResult run_checkpoint(const nn::ModelConfig& model, const std::filesystem::path& directory, std::int64_t rounds, int threads);

std::string describe(const CheckpointResult& result);
Json to_json(const CheckpointResult& result);

}  // namespace oxrse::bench

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/core/context.h"
#include "engine/core/json.h"
#include "engine/train/config.h"

namespace oxrse::bench {

/// What saving in the background costs training: rounds of checkpoint.every steps with and without a save, in alternation.
struct SavingResult {
  std::int64_t every = 0, rounds = 0;
  double step = 0;         // seconds of a step without saves, median over the rounds
  double step_saving = 0;  // the same with a save at the beginning of the round, which ends when that is on the disk
  double speed = 0;        // throughput with saves / without, median over the pairs of rounds
  double stall = 0;        // seconds that training stood still for a save, mean
  double save = 0;         // seconds until it was on the disk, mean
};

/// Trains the config's model on random tokens and saves to a directory made in `directory`, which is removed. An Error when it does not fit
/// the memory of this machine.
SavingResult run_saving(const train::Config& config, const std::filesystem::path& directory, std::int64_t rounds, const Cpu& cpu);

/// `copy`: seconds that a memcpy of the state takes.
std::string describe(const SavingResult& result, double copy);
Json to_json(const SavingResult& result);

}  // namespace oxrse::bench

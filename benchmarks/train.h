#pragma once

#include <cstdint>
#include <string>

#include "benchmarks/report.h"
#include "comm/communicator.h"
#include "engine/train/config.h"
#include "engine/train/plan.h"

namespace oxrse::bench {

/// What a training step costs and where its time goes.
struct TrainResult {
  int ranks = 1;                 // what is said of one is of the first
  Samples step;                  // seconds of whole steps
  DType dtype = DType::F32;      // computed in
  double comm_seconds = 0;       // of a step, median: communication that computing did not hide, and waiting for other ranks
  double tokens = 0;             // of a step of all ranks
  double processor_seconds = 0;  // of all threads, a step: what it would take to wait for on a machine that nobody else uses, times threads
  double gemm_seconds = 0;       // the step's matrix products alone, at their best
  double gemm_flops = 0, model_flops = 0;  // of one rank
  std::int64_t planned_bytes = 0;          // tensors and process
  std::int64_t resident_bytes = 0;         // after the steps, when everything they need has been touched

  [[nodiscard]] double tokens_per_s() const { return tokens / step.median; }
  /// Time the products take alone / time of the step.
  [[nodiscard]] double efficiency() const { return gemm_seconds / step.median; }
  /// FLOPs of the model / what the machine does in products of this type in that time; with nothing measured, 0.
  [[nodiscard]] double utilisation(const Ceilings& ceilings) const;
};

/// The plan of one of `ranks` (absent: there is one) for the config's step; data.bpe_vocab fills in for a tokenizer. An Error when it does
/// not fit the memory of this machine, or of the device.
train::Plan plan_train(train::Config config, Device* device = nullptr, comm::Communicator* ranks = nullptr);

/// Trains the planned model on random tokens for `steps` steps and adds a row for every op of the step (mode "step"), then times the
/// products alone. On a device the ops are timed in as many steps of their own, because it has to do one at a time then. All ranks call it.
TrainResult run_train(const train::Config& config, const train::Plan& plan, std::int64_t steps, const Cpu& cpu, Report& report,
                      Cuda* device = nullptr, comm::Communicator* ranks = nullptr);

std::string describe(const TrainResult& result, const Report& report);
Json to_json(const TrainResult& result);

}  // namespace oxrse::bench

#pragma once

#include <cstdint>
#include <optional>

#include "engine/train/run_directory.h"
#include "engine/train/training.h"
#include "io/metrics/event_file.h"
#include "io/metrics/metrics_file.h"

namespace oxrse::train {

/// What is recorded of a step.
struct StepRecord {
  std::int64_t step = 0;  // counted from 1
  StepReport report;
  std::int64_t tokens = 0;  // since the beginning of the run
  double tokens_per_s = 0;
  double step_ms = 0;
  double checkpoint_ms = 0;  // training stood still this long for the checkpoint before this step
  std::int64_t skipped = 0;  // since the beginning of the run
};

/// Writes metrics.jsonl and, where the config says so, TensorBoard's event files.
class Recorder {
 public:
  /// Goes on after `step`: what an earlier run recorded of later steps is dropped, so that the series has every step once.
  Recorder(const RunDirectory& directory, const Config& config, std::int64_t step);

  void step(const StepRecord& record);
  void evaluation(std::int64_t step, const Evaluation& evaluation);

 private:
  io::MetricsFile metrics_;
  std::optional<io::EventFile> events_;
};

}  // namespace oxrse::train

#pragma once

#include <cstdint>
#include <optional>

#include "engine/core/device.h"
#include "engine/train/checkpointer.h"
#include "engine/train/config.h"
#include "engine/train/plan.h"
#include "engine/train/ranks.h"
#include "engine/train/terminal.h"
#include "io/data/open.h"

// What a person reads of a run before its first step and after its last.
namespace oxrse::train {

/// How a run went.
struct Outcome {
  const char* stopped_by = nullptr;  // a signal; null: all steps are done
  std::int64_t first_step = 0;       // steps that were taken before
  double seconds = 0;                // from reading the data on
  double step_ms = 0;                // of all steps together
  std::optional<double> loss;        // of the last step
  std::optional<double> validation_loss;
  SaveTotals saves;
  bool has_tokenizer = false;
};

/// Prints what is about to be trained, on what, and what it takes. `device`: null for the CPU.
void show_header(const Plan& plan, const Config& config, const io::TrainingData& data, const Device* device, const Ranks& ranks);

/// Prints how the run ended, what its checkpoints have cost, where everything is and what to do next.
void show_summary(Terminal& terminal, const Config& config, const Progress& progress, const Outcome& outcome);

}  // namespace oxrse::train

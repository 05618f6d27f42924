#include "engine/train/run_report.h"

#include "engine/core/build_info.h"
#include "engine/train/advice.h"
#include "engine/train/machine.h"

namespace oxrse::train {
namespace {

/// What the checkpoints of this run have cost, and how often to save if the config says how often failures come.
void show_saving(Terminal& terminal, const Config& config, const Progress& progress, const Outcome& outcome) {
  const SaveTotals& totals = outcome.saves;
  if (totals.saved == 0) return;
  const auto saved = static_cast<double>(totals.saved);
  terminal.note(fmt::format("saved    {} checkpoint{} of {}{}: training stood still for {:.3g} ms each, {}/s to the disk", totals.saved,
                            totals.saved == 1 ? "" : "s", format_bytes(static_cast<double>(totals.bytes)),
                            totals.skipped > 0 ? fmt::format(", {} skipped", totals.skipped) : "", totals.stall_ms / saved,
                            format_bytes(totals.written_bytes / totals.write_ms * 1e3)));
  const double steps = static_cast<double>(progress.step - outcome.first_step);
  if (config.checkpoint.mtbf_h <= 0 || steps <= 0) return;
  const SaveCost cost{
      .stall = totals.stall_ms / saved / 1e3, .delay = totals.write_ms / saved / 1e3, .step = outcome.step_ms / steps / 1e3};
  terminal.note("advice   " + advise(cost, config.checkpoint.mtbf_h, config.checkpoint.every));
}

}  // namespace

void show_header(const Plan& plan, const Config& config, const io::TrainingData& data, const Device* device, const Ranks& ranks) {
  const nn::ModelConfig& model = plan.model;
  show(fmt::format("oxrse {} ({})\n", build_info().version, build_info().commit));
  show(fmt::format("run      {} in {}\n", config.run.name, config.directory()));
  show(fmt::format("model    {} parameters: {} layers, width {}, {} heads ({} key/value), vocabulary {}, context {}\n",
                   format_count(static_cast<double>(plan.parameters)), model.layers, model.width, model.heads, model.kv_heads, model.vocab,
                   model.context));
  show(fmt::format("data     {}\n", data.train->describe()));
  for (const std::string& note : data.notes) show(fmt::format("         {}\n", note));
  if (data.validation) show(fmt::format("         evaluation: {}\n", data.validation->describe()));
  show(fmt::format("step     {} tokens: {} micro-batches of {} samples of {} tokens; {} FLOP\n", static_cast<std::int64_t>(plan.tokens),
                   config.micro_batches(), config.train.micro_batch, config.train.context, format_count(plan.model_flops)));
  show(fmt::format("memory   {} planned: weights {}, gradients {}, optimizer {}, activations {}, workspace {}, snapshot {}, process {}{}\n",
                   format_bytes(static_cast<double>(plan.total_bytes())), format_bytes(static_cast<double>(plan.memory[Memory::Weights])),
                   format_bytes(static_cast<double>(plan.memory[Memory::Gradients])),
                   format_bytes(static_cast<double>(plan.memory[Memory::Optimizer])),
                   format_bytes(static_cast<double>(plan.memory[Memory::Activations])),
                   format_bytes(static_cast<double>(plan.memory[Memory::Workspace])),
                   format_bytes(static_cast<double>(plan.snapshot_bytes)), format_bytes(static_cast<double>(plan.process_bytes)),
                   plan.peer_bytes > 0 ? ", peer copies " + format_bytes(static_cast<double>(plan.peer_bytes)) : ""));
  show(fmt::format("device   {}, {} threads{}, {}\n", device == nullptr ? "cpu" : device->description(), ranks.threads(),
                   ranks.size() > 1 ? fmt::format(" for each of {} ranks", ranks.size()) : "", config.precision.compute));
  if (device != nullptr && ranks.size() > 1) {
    show(fmt::format("ranks    sums go {}\n", plan.linked ? "from GPU to GPU, by NCCL" : "through the hosts, by MPI"));
  }
}

void show_summary(Terminal& terminal, const Config& config, const Progress& progress, const Outcome& outcome) {
  const std::string run = config.directory();
  if (outcome.stopped_by != nullptr) {
    terminal.note(fmt::format("{}: stopped and saved at step {} of {}; run the same command again to go on", outcome.stopped_by,
                              progress.step, config.train.steps));
  } else if (outcome.first_step == progress.step && outcome.first_step > 0) {
    terminal.note(fmt::format("nothing to do: {} is at step {} of {}; raise train.steps to go on", run, progress.step, config.train.steps));
    return;
  } else {
    std::string losses;
    if (outcome.loss) losses += fmt::format(", loss {:.4f}", *outcome.loss);
    if (outcome.validation_loss) losses += fmt::format(", evaluation {:.4f}", *outcome.validation_loss);
    terminal.note(fmt::format("done: {} steps in {}{}", progress.step - outcome.first_step, format_duration(outcome.seconds), losses));
  }
  show_saving(terminal, config, progress, outcome);
  if (progress.skipped > 0) terminal.note(fmt::format("{} steps were skipped for gradients that were not finite", progress.skipped));
  terminal.note(fmt::format(
      "memory   {} at the most\nwritten  {}: checkpoints/, metrics.jsonl{}, config.json{}\nnext     oxrse generate {} --prompt TEXT",
      format_bytes(static_cast<double>(peak_resident_bytes())), run, config.log.tensorboard ? ", tensorboard/" : "",
      outcome.has_tokenizer ? ", tokenizer.json" : "", run));
}

}  // namespace oxrse::train

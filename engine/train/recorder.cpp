#include "engine/train/recorder.h"

namespace oxrse::train {

Recorder::Recorder(const RunDirectory& directory, const Config& config, std::int64_t step) : metrics_(directory.metrics(), step) {
  if (config.log.tensorboard) events_.emplace(directory.tensorboard(), step);
}

void Recorder::step(const StepRecord& record) {
  const StepReport& report = record.report;
  metrics_.write({{"step", record.step},
                  {"loss", report.loss},
                  {"grad_norm", report.grad_norm},
                  {"lr", report.lr},
                  {"tokens", record.tokens},
                  {"tokens_per_s", record.tokens_per_s},
                  {"mfu", nullptr},  // the peak of a CPU is not known
                  {"step_ms", record.step_ms},
                  {"data_ms", report.data_ms},
                  {"comm_ms", report.comm_ms},
                  {"checkpoint_ms", record.checkpoint_ms},
                  {"loss_scale", report.loss_scale},
                  {"skipped", record.skipped}});
  if (!events_) return;
  events_->write(record.step, {{"train/loss", report.loss},
                               {"train/grad_norm", report.grad_norm},
                               {"train/lr", report.lr},
                               {"speed/tokens_per_s", record.tokens_per_s},
                               {"speed/step_ms", record.step_ms}});
}

void Recorder::evaluation(std::int64_t step, const Evaluation& evaluation) {
  metrics_.write({{"step", step}, {"val_loss", evaluation.loss}});
  if (events_) events_->write(step, {{"validation/loss", evaluation.loss}});
}

}  // namespace oxrse::train

#include "engine/train/checkpointer.h"

#include <utility>

#include "io/checkpoint/save.h"

namespace oxrse::train {
namespace {

double milliseconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

std::int64_t bytes_of(std::span<const io::CheckpointEntry> entries) {
  std::int64_t bytes = 0;
  for (const io::CheckpointEntry& entry : entries) bytes += entry.tensor.bytes();
  return bytes;
}

}  // namespace

Checkpointer::Checkpointer(Training& training, const Config& config, Places places, std::string tokenizer_json, const io::Dataset* data,
                           Note note)
    : training_(training),
      config_(config),
      places_(std::move(places)),
      tokenizer_json_(std::move(tokenizer_json)),
      data_(data),
      note_(std::move(note)) {
  const auto entries = checkpoint_entries(training, config_.checkpoint);
  totals_.bytes = bytes_of(entries);
  if (!copies(config)) return;
  snapshot_.emplace(entries);
  background_.emplace();
}

io::CheckpointState Checkpointer::state_of(const Progress& progress, bool weights_only) {
  return {.step = progress.step,
          .state = checkpoint_state(training_, progress, config_, data_),
          .config = write_config(config_),
          .tokenizer_json = tokenizer_json_,
          .weights_only = weights_only};
}

void Checkpointer::write(const io::CheckpointState& state, std::span<const io::CheckpointEntry> entries,
                         std::vector<std::string>& warnings) const {
  if (places_.memory && !state.weights_only) write_to_memory(state, entries, warnings);
  if (!places_.files) return;
  io::save_checkpoint(*places_.files, state, entries, config_.checkpoint.keep, [&](const std::string& text) { warnings.push_back(text); },
                      {.compress = config_.checkpoint.compress, .incremental = config_.checkpoint.incremental});
}

void Checkpointer::write_to_memory(const io::CheckpointState& state, std::span<const io::CheckpointEntry> entries,
                                   std::vector<std::string>& warnings) const {
  try {
    io::save_checkpoint(*places_.memory, state, entries, 1, [](const std::string&) {});
  } catch (const Error& error) {
    warnings.push_back(fmt::format("no copy in memory: {}", error.what()));
  }
}

void Checkpointer::saved(const io::CheckpointState& state, std::int64_t bytes, double stall_ms, double write_ms,
                         const std::vector<std::string>& warnings) {
  for (const std::string& text : warnings) note_("warning: " + text);
  if (!state.weights_only) saved_step_ = state.step;
  ++totals_.saved;
  totals_.written_bytes += static_cast<double>(bytes);
  totals_.stall_ms += stall_ms;
  totals_.write_ms += write_ms;
  const std::string how = stall_ms < write_ms ? fmt::format(" in the background, training stood still for {:.0f} ms", stall_ms) : "";
  note_(fmt::format("saved {}step {} in {:.0f} ms{}", state.weights_only ? "the weights of " : "", state.step, write_ms, how));
}

double Checkpointer::save(const Progress& progress, bool weights_only) {
  collect();
  if (!background_) return save_now(progress, weights_only);
  if (background_->busy() && config_.checkpoint.when_busy == "skip") {
    ++totals_.skipped;
    note_(fmt::format("warning: step {} is not saved: the checkpoint of step {} is still being written (checkpoint.when_busy: skip)",
                      progress.step, in_flight_->state.step));
    return 0;
  }
  return save_in_background(progress, weights_only);
}

double Checkpointer::save_now(const Progress& progress, bool weights_only) {
  const auto begin = Clock::now();
  std::vector<std::string> warnings;
  const io::CheckpointState state = state_of(progress, weights_only);
  const auto entries = checkpoint_entries(training_, config_.checkpoint, weights_only);
  require_finite(checkpoint_entries(training_, {}, weights_only));  // before they are rounded
  write(state, entries, warnings);
  const double ms = milliseconds(Clock::now() - begin);
  saved(state, bytes_of(entries), ms, ms, warnings);
  return ms;
}

double Checkpointer::save_in_background(const Progress& progress, bool weights_only) {
  const auto begin = Clock::now();
  if (background_->busy()) wait_visibly();
  end_background();
  snapshot_->take(checkpoint_entries(training_, config_.checkpoint, weights_only));
  in_flight_ = InFlight{.state = state_of(progress, weights_only), .bytes = bytes_of(snapshot_->entries()), .begin = begin};
  InFlight& job = *in_flight_;
  background_->start([this, &job] {
    require_finite(snapshot_->entries());
    write(job.state, snapshot_->entries(), job.warnings);
    job.end = Clock::now();
  });
  return job.stall_ms = milliseconds(Clock::now() - begin);
}

void Checkpointer::collect() {
  if (in_flight_ && !background_->busy()) end_background();
}

void Checkpointer::wait_visibly() {
  const auto begin = Clock::now();
  const std::int64_t step = in_flight_->state.step;
  end_background();
  note_(
      fmt::format("warning: training waited {:.0f} ms for the checkpoint of step {} to be written: save less often, or set "
                  "checkpoint.when_busy to \"skip\"",
                  milliseconds(Clock::now() - begin), step));
}

/// Waits for what is being written.
void Checkpointer::end_background() {
  if (!in_flight_) return;
  try {
    background_->wait();
  } catch (...) {
    in_flight_.reset();
    throw;
  }
  saved(in_flight_->state, in_flight_->bytes, in_flight_->stall_ms, milliseconds(in_flight_->end - in_flight_->begin),
        in_flight_->warnings);
  in_flight_.reset();
}

void Checkpointer::finish(const Progress& progress) {
  end_background();
  places_.memory.reset();  // of a run that ends, files are what lasts
  if (places_.files && saved_step_ != progress.step) save_now(progress, false);
}

}  // namespace oxrse::train

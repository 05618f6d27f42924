#include "engine/train/checkpointer.h"

#include <utility>

#include "engine/train/failure.h"

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
      files_(std::move(places.files)),
      joint_(training.group().communicator, files_, training.group().rank == 0),
      tokenizer_json_(std::move(tokenizer_json)),
      data_(data),
      note_(std::move(note)) {
  const auto mine = entries(config_.checkpoint, false);
  if (places.copies != nullptr) copies_.emplace(training.group().communicator, places.copies->nodes(), places.copies->directory());
  double bytes = static_cast<double>(bytes_of(mine));
  joint_.sum({&bytes, 1});
  totals_.bytes = static_cast<std::int64_t>(bytes);
  if (!copies(config)) return;
  snapshot_.emplace(mine, training.context().cpu.threads);
  background_.emplace();
}

io::CheckpointState Checkpointer::state_of(const Progress& progress, bool weights_only) {
  return {.step = progress.step,
          .state = checkpoint_state(training_, progress, config_, data_),
          .config = write_config(config_),
          .tokenizer_json = tokenizer_json_,
          .weights_only = weights_only};
}

std::vector<io::CheckpointEntry> Checkpointer::entries(const io::CheckpointConfig& config, bool weights_only) const {
  return whole_ ? checkpoint_entries(training_, config, weights_only) : entries_to_save(training_, config, weights_only);
}

void Checkpointer::begin(const io::CheckpointState& state) {
  begun_step_ = state.step;
  if (copies_ && !state.weights_only) copies_->begin(state);
  joint_.begin(state.step);
}

/// Writes what this rank has, once nothing wrong is found in `checked`; first to memory, which is faster.
void Checkpointer::write(const io::CheckpointState& state, std::span<const io::CheckpointEntry> entries,
                         std::span<const io::CheckpointEntry> checked) {
  const std::string fault = failure_of([&] { require_finite(checked); });
  if (copying()) copies_->write(entries, fault);
  joint_.attempt([&] { require(fault.empty(), "{}", fault); });
  joint_.write(state, entries, {.compress = config_.checkpoint.compress, .incremental = config_.checkpoint.incremental});
}

void Checkpointer::commit(const io::CheckpointState& state, std::vector<std::string>& warnings) {
  joint_.commit(state, config_.checkpoint.keep, [&](const std::string& text) { warnings.push_back(text); });
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

void Checkpointer::report(const std::optional<std::string>& problem) {
  if (problem) note_("warning: no copy in memory: " + *problem);
}

double Checkpointer::save(const Progress& progress, bool weights_only) {
  collect();
  if (!background_) return save_now(progress, weights_only);
  if ((in_flight_ || copying()) && config_.checkpoint.when_busy == "skip") {
    ++totals_.skipped;
    note_(fmt::format("warning: step {} is not saved: the checkpoint of step {} is still being written (checkpoint.when_busy: skip)",
                      progress.step, begun_step_));
    return 0;
  }
  return save_in_background(progress, weights_only);
}

double Checkpointer::save_now(const Progress& progress, bool weights_only) {
  const auto start = Clock::now();
  std::vector<std::string> warnings;
  const io::CheckpointState state = state_of(progress, weights_only);
  begin(state);
  write(state, entries(config_.checkpoint, weights_only), entries({}, weights_only));
  if (copying()) report(copies_->finish());
  const std::int64_t bytes = joint_.exchange();
  commit(state, warnings);
  joint_.conclude();
  const double ms = milliseconds(Clock::now() - start);
  saved(state, bytes, ms, ms, warnings);
  return ms;
}

double Checkpointer::save_in_background(const Progress& progress, bool weights_only) {
  const auto start = Clock::now();
  if (in_flight_ || copying()) wait_visibly();
  snapshot_->take(entries(config_.checkpoint, weights_only));
  in_flight_ = InFlight{.state = state_of(progress, weights_only), .bytes = bytes_of(snapshot_->entries()), .begin = start};
  InFlight& job = *in_flight_;
  begin(job.state);
  background_->start([this, &job] {
    write(job.state, snapshot_->entries(), snapshot_->entries());
    if (alone()) {
      joint_.exchange();
      commit(job.state, job.warnings);
      joint_.conclude();
    }
    job.end = Clock::now();
  });
  return job.stall_ms = milliseconds(Clock::now() - start);
}

void Checkpointer::collect() {
  if (!in_flight_ && !copying()) return;
  double busy[] = {copying() && copies_->busy() ? 1.0 : 0.0, in_flight_ && background_->busy() ? 1.0 : 0.0};
  joint_.sum(busy);
  if (copying() && busy[0] == 0) report(copies_->advance());
  if (in_flight_ && busy[1] == 0) end_phase();
}

void Checkpointer::wait_visibly() {
  const auto start = Clock::now();
  end_background();
  note_(
      fmt::format("warning: training waited {:.0f} ms for the checkpoint of step {} to be written: save less often, or set "
                  "checkpoint.when_busy to \"skip\"",
                  milliseconds(Clock::now() - start), begun_step_));
}

/// Waits for what the background does now. What several ranks have written is then committed in the background of the first.
void Checkpointer::end_phase() {
  InFlight& job = *in_flight_;
  try {
    background_->wait();
    if (!alone() && !job.commits) {
      job.bytes = joint_.exchange();
      job.commits = true;
      background_->start([this, &job] {
        commit(job.state, job.warnings);
        job.end = Clock::now();
      });
      return;
    }
    if (!alone()) joint_.conclude();
  } catch (...) {
    in_flight_.reset();
    throw;
  }
  saved(job.state, job.bytes, job.stall_ms, milliseconds(job.end - job.begin), job.warnings);
  in_flight_.reset();
}

/// Waits for what is being written.
void Checkpointer::end_background() {
  if (in_flight_) end_phase();  // all have written their shards
  if (copying()) report(copies_->finish());
  while (in_flight_) end_phase();
}

void Checkpointer::finish(const Progress& progress) {
  end_background();
  copies_.reset();  // of a run that ends, files are what lasts
  if (saved_step_ != progress.step) save_now(progress, false);
}

void Checkpointer::finish_alone(const Progress& progress) {
  if (in_flight_) background_->wait();
  in_flight_.reset();
  copies_.reset();
  joint_ = JointSave(nullptr, files_, true);
  whole_ = true;
  finish(progress);
}

}  // namespace oxrse::train

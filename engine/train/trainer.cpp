#include "engine/train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "engine/core/devices.h"
#include "engine/train/checkpointer.h"
#include "engine/train/inference.h"
#include "engine/train/peer_copies.h"
#include "engine/train/plan.h"
#include "engine/train/ranks.h"
#include "engine/train/recorder.h"
#include "engine/train/resume.h"
#include "engine/train/run_directory.h"
#include "engine/train/run_report.h"
#include "engine/train/sampling.h"
#include "engine/train/saving.h"
#include "engine/train/signals.h"
#include "engine/train/terminal.h"
#include "engine/train/training.h"
#include "io/checkpoint/checkpoint.h"
#include "io/data/open.h"
#include "io/data/prefetch.h"

namespace oxrse::train {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

/// One line about long work before training, redrawn on a terminal.
void show_progress(const io::Progress& progress) {
  if (isatty(STDOUT_FILENO) == 0) return;
  const bool done = progress.done >= progress.total;
  show(fmt::format("\r\033[K{} {:.0f}%{}", progress.what,
                   100.0 * static_cast<double>(progress.done) / static_cast<double>(std::max<std::int64_t>(progress.total, 1)),
                   done ? "\r\033[K" : ""));
}

/// Weights mean nothing with tokens other than those they were trained on.
void require_same_tokens(const io::Checkpoint& initial, const io::Tokenizer* tokenizer, const nn::ModelConfig& model) {
  const std::string name = initial.directory().string();
  const Json saved = model_of_checkpoint(initial);
  require(!saved.contains("vocab") || saved["vocab"] == model.vocab,
          "run.init: {} is a model of {} tokens, this run has a vocabulary of {}: take its tokenizer, set model.vocab to {}, or leave out "
          "model",
          name, shown(saved["vocab"]), model.vocab, shown(saved["vocab"]));
  if (tokenizer == nullptr || initial.tokenizer_json().empty()) return;
  const auto before = io::tokenizer_from_json(initial.tokenizer_json(), name);
  require(before->fingerprint() == tokenizer->fingerprint(),
          "run.init: {} was trained with another tokenizer ({} tokens; this run's has {}), so its weights stand for other tokens: set "
          "data.tokenizer to the tokenizer.json of that run and leave out data.bpe_vocab",
          name, before->vocab_size(), tokenizer->vocab_size());
}

/// A run from its config to its last checkpoint.
class Run {
 public:
  Run(Config config, const std::string& resume, Ranks& ranks);
  void execute();

 private:
  void open_inputs(const io::Checkpoint* initial);
  void open_copies(std::int64_t bytes);
  void begin_at(Resume& from, const io::Checkpoint* initial, const Json& effective);
  void open_outputs(const Json& effective, bool from_files);
  void end_copies();
  const char* stop_request();
  void take_step();
  void evaluate();
  void print_sample();
  void train_steps();
  void save_after(const Error& error);
  void check_skipped(const StepReport& report);
  [[nodiscard]] bool due(std::int64_t every) const { return every > 0 && progress_.step % every == 0; }
  [[nodiscard]] std::int64_t evaluation_samples() const;

  Ranks& ranks_;
  Config config_;
  Device* device_;                         // null: the CPU
  std::optional<RunDirectory> directory_;  // of the first rank, which alone writes
  std::unique_ptr<io::Tokenizer> tokenizer_;
  std::optional<PeerCopies> copies_;  // with checkpoint.peer
  io::TrainingData data_;
  nn::ModelConfig model_;
  std::optional<Arena> arena_;
  Context context_;
  std::unique_ptr<Training> training_;
  std::unique_ptr<io::PrefetchedDataset> batches_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Terminal> terminal_;
  std::unique_ptr<Checkpointer> checkpointer_;
  Progress progress_;
  Outcome outcome_;
  double checkpoint_ms_ = 0;
  Clock::time_point begin_ = Clock::now();
};

Run::Run(Config config, const std::string& resume, Ranks& ranks)
    : ranks_(ranks), config_(std::move(config)), device_(find_device(config_.run.device)) {
  std::optional<io::Checkpoint> initial;
  if (config_.run.init) {
    initial = io::Checkpoint::open(*config_.run.init, warn);
    if (config_.model.is_null()) config_.model = model_of_checkpoint(*initial);
  }
  open_inputs(initial ? &*initial : nullptr);
  config_.model = write_config(model_);
  const Plan plan = make_plan(config_, model_, ranks_.communicator());
  show_header(plan, config_, data_, device_, ranks_);
  if (ranks_.first() && config_.optimizer.warmup_steps >= config_.train.steps && config_.train.steps > 0) {
    warn(fmt::format("optimizer.warmup_steps {} is not below train.steps {}: the rate reaches optimizer.lr at the last step or never",
                     config_.optimizer.warmup_steps, config_.train.steps));
  }
  require_fits(plan, config_, device_);

  const Json effective = write_config(config_);
  if (ranks_.first()) directory_.emplace(config_.directory());
  Resume from(ranks_, resume, directory_ ? &*directory_ : nullptr);
  open_copies(plan.own_bytes);
  if (copies_) from.look_into(*copies_);
  from.check(effective);  // before anything is allocated
  arena_ = Arena::allocated(plan.memory.total(), device_);
  context_ = Context{.mode = Mode::Run, .cpu = {ranks_.threads()}, .arena = &*arena_, .log = nullptr, .device = device_};
  training_ = std::make_unique<Training>(context_, config_, model_, ranks_.communicator());
  context_.wait();  // what is loaded now must not be overwritten
  begin_at(from, initial ? &*initial : nullptr, effective);
  open_outputs(effective, from.took_files());
}

/// What the first rank caches of them, the others read.
void Run::open_inputs(const io::Checkpoint* initial) {
  ranks_.first_alone([&] {
    tokenizer_ = io::open_tokenizer(config_.data, show_progress);
    model_ = resolve_model(config_, tokenizer_ ? tokenizer_->vocab_size() : 0);
    if (initial != nullptr) require_same_tokens(*initial, tokenizer_.get(), model_);
    data_ = io::open_training_data(
        config_.data, tokenizer_.get(),
        {.context = config_.train.context, .seed = static_cast<std::uint64_t>(config_.run.seed), .vocab = model_.vocab}, show_progress);
  });
}

/// With checkpoint.peer: where copies in the memory of the nodes go, and where those of this run are. Without it, they are removed.
void Run::open_copies(std::int64_t bytes) {
  const std::string run =
      ranks_.from_first(directory_ ? std::filesystem::absolute(directory_->path()).string() + " " + directory_->id() : "");
  if (!config_.checkpoint.peer) return PeerCopies::forget(config_.checkpoint, run);
  copies_.emplace(config_.checkpoint, run, bytes, ranks_.communicator(), ranks_.first_of_node());
  copies_->start_holder(std::filesystem::read_symlink("/proc/self/exe"));
}

/// Takes the state of the first step: of a checkpoint of this run, else with the weights of run.init, else drawn at random.
void Run::begin_at(Resume& from, const io::Checkpoint* initial, const Json& effective) {
  if (const auto progress = from.restore(*training_, data_.train.get(), effective)) {
    progress_ = *progress;
  } else if (initial != nullptr) {
    load_weights(context_, training_->parameters(), *initial);
    training_->optimizer().round_weights(context_);
    show(fmt::format("weights  from {}\n", initial->directory().string()));
  } else {
    training_->initialize();
  }
  outcome_.first_step = progress_.step;
  batches_ = std::make_unique<io::PrefetchedDataset>(*data_.train, config_.train.context, 2 * config_.train.micro_batch,
                                                     training_->samples_of_step());
  const std::string here = std::to_string(progress_.step), first_rank = ranks_.from_first(here);
  require(first_rank == here, "this rank found a checkpoint of step {}, rank 0 one of step {}: do all see the same files?", here,
          first_rank);
  training_->share_weights();
}

void Run::open_outputs(const Json& effective, bool from_files) {
  if (directory_) {
    directory_->write_config(effective);
    if (tokenizer_) directory_->write_tokenizer(tokenizer_->to_json());
    recorder_ = std::make_unique<Recorder>(*directory_, config_, progress_.step);
  }
  terminal_ = std::make_unique<Terminal>(progress_.step, config_.train.steps, config_.log.every);
  const Checkpointer::Places places{.files = std::filesystem::path(config_.directory()) / "checkpoints",
                                    .copies = copies_ ? &*copies_ : nullptr};
  checkpointer_ = std::make_unique<Checkpointer>(*training_, config_, places, tokenizer_ ? tokenizer_->to_json() : "", data_.train.get(),
                                                 [this](const std::string& text) { terminal_->note(text); });
  if (from_files) checkpointer_->resumed_at(progress_.step);
}

/// Once the end of the run is in files.
void Run::end_copies() {
  if (!copies_) return;
  if (ranks_.communicator() != nullptr) ranks_.communicator()->barrier("waiting for the last checkpoint", false);
  copies_->end();
}

void Run::execute() {
  try {
    train_steps();
    checkpointer_->finish(progress_);
    end_copies();
  } catch (const Error& error) {
    save_after(error);
    throw;
  }
  outcome_.seconds = milliseconds(begin_, Clock::now()) / 1e3;
  outcome_.saves = checkpointer_->totals();
  outcome_.has_tokenizer = tokenizer_ != nullptr;
  show_summary(*terminal_, config_, progress_, outcome_);
}

void Run::train_steps() {
  while (progress_.step < config_.train.steps && (outcome_.stopped_by = stop_request()) == nullptr) {
    if (ranks_.communicator() != nullptr) ranks_.communicator()->set_step(progress_.step + 1);
    take_step();
    if (due(config_.train.eval_every) || (progress_.step == config_.train.steps && config_.train.eval_every > 0)) evaluate();
    if (due(config_.train.sample_every)) print_sample();
    checkpointer_->collect();
    if (due(config_.checkpoint.every)) {
      checkpoint_ms_ = checkpointer_->save(progress_);
    } else if (due(config_.checkpoint.weights_every)) {
      checkpoint_ms_ = checkpointer_->save(progress_, true);
    }
  }
}

/// The signal that any of the ranks got: all stop after the same step.
const char* Run::stop_request() {
  const char* here = StopRequests::pending();
  if (!ranks_.any(here != nullptr)) return nullptr;
  return here != nullptr ? here : "a signal to another rank";
}

/// Saves the state before what failed, together with the other ranks when they have the same error: a step that fails changes nothing, and
/// neither does a save; when it was the saving that failed, another try may still save what was computed since. Says both when that fails
/// too.
void Run::save_after(const Error& error) {
  const bool together = ranks_.size() == 1 || dynamic_cast<const AgreedError*>(&error) != nullptr;
  if (!together && (!ranks_.first() || training_->shares_optimizer())) return;
  try {
    together ? checkpointer_->finish(progress_) : checkpointer_->finish_alone(progress_);
  } catch (const Error& unsaved) {
    if (std::string_view(unsaved.what()) == error.what()) return;
    fail("{}\n{}", error.what(), unsaved.what());
  }
}

void Run::take_step() {
  const auto begin = Clock::now();
  const StepReport report = training_->step(batches_.get(), progress_.step);
  const double step_ms = milliseconds(begin, Clock::now());
  outcome_.step_ms += step_ms;
  ++progress_.step;
  outcome_.loss = report.loss;
  const double tokens = static_cast<double>(config_.train.global_batch * config_.train.context);
  const double tokens_per_s = tokens / (step_ms / 1e3);
  check_skipped(report);
  if (recorder_) {
    recorder_->step({.step = progress_.step,
                     .report = report,
                     .tokens = progress_.step * config_.train.global_batch * config_.train.context,
                     .tokens_per_s = tokens_per_s,
                     .step_ms = step_ms,
                     .checkpoint_ms = std::exchange(checkpoint_ms_, 0),
                     .skipped = progress_.skipped});
  }
  terminal_->step(progress_.step, report, step_ms, tokens_per_s);
}

void Run::check_skipped(const StepReport& report) {
  progress_.skipped_in_a_row = report.applied ? 0 : progress_.skipped_in_a_row + 1;
  if (report.applied) return;
  ++progress_.skipped;
  std::string names;
  const auto bad = training_->optimizer().not_finite();
  for (std::size_t i = 0; i < bad.size() && i < 5; ++i) names += (i == 0 ? "" : ", ") + std::string(bad[i]);
  if (bad.size() > 5) names += fmt::format(" and {} more", bad.size() - 5);
  terminal_->note(fmt::format("warning: step {} skipped, nothing was changed: the gradient is not finite in {}", progress_.step, names));
  if (training_->scaler().active()) return;  // the loss scale has a floor of its own
  if (progress_.skipped_in_a_row < config_.train.stop_after_skipped) return;
  throw AgreedError(fmt::format(
      "{} steps in a row had no finite gradient (first in {}): the last good state is kept in {}; lower optimizer.lr or look at the data",
      progress_.skipped_in_a_row, names, config_.directory() + "/checkpoints"));
}

std::int64_t Run::evaluation_samples() const {
  const std::int64_t all = data_.validation->samples_per_epoch();
  const std::int64_t wanted = config_.train.eval_batches * config_.train.micro_batch;
  return wanted == 0 ? all : std::min(all, wanted);
}

void Run::evaluate() {
  if (!data_.validation) return;
  const Evaluation result = training_->evaluate(data_.validation.get(), evaluation_samples());
  if (result.valid_tokens > 0) outcome_.validation_loss = result.loss;
  if (recorder_) recorder_->evaluation(progress_.step, result);
  terminal_->note(result.valid_tokens > 0
                      ? fmt::format("evaluation at step {}: loss {:.4f} over {} tokens", progress_.step, result.loss, result.valid_tokens)
                      : fmt::format("evaluation at step {}: no loss, every document has a single token", progress_.step));
}

void Run::print_sample() {
  if (!tokenizer_ || !ranks_.first()) return;
  const std::vector<std::int32_t> prompt = tokenizer_->encode(config_.train.sample_prompt);
  if (prompt.empty()) return;
  io::StreamDecoder decoder(*tokenizer_);
  std::string text = config_.train.sample_prompt;
  Generator generator(context_, training_->parameters(), training_->model());
  try {
    generator.generate(
        prompt, config_.train.sample_tokens,
        {.temperature = 0.8, .top_k = 50, .vocab = tokenizer_->vocab_size(), .seed = static_cast<std::uint64_t>(progress_.step)},
        [&](std::int32_t token) {
          text += decoder.push(token);
          return true;
        });
  } catch (const Error& error) {  // whether the run goes on is up to its steps
    terminal_->note(fmt::format("warning: no sample at step {}: {}", progress_.step, error.what()));
    return;
  }
  terminal_->note(fmt::format("sample at step {}: {}{}", progress_.step, text, decoder.finish()));
}

}  // namespace

void train(const std::function<JsonDocument()>& read, const std::string& resume) {
  const StopRequests stop;  // from here on, so that a signal while data are read also ends in a saved state
  Ranks ranks;
  ranks.run([&] {
    const Config config = load_config(read());
    ranks.connect(config);
    Run(config, resume, ranks).execute();
  });
}

}  // namespace oxrse::train

#include "engine/train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "engine/core/build_info.h"
#include "engine/core/devices.h"
#include "engine/train/advice.h"
#include "engine/train/checkpointer.h"
#include "engine/train/inference.h"
#include "engine/train/machine.h"
#include "engine/train/peer_copies.h"
#include "engine/train/plan.h"
#include "engine/train/ranks.h"
#include "engine/train/recorder.h"
#include "engine/train/run_directory.h"
#include "engine/train/sampling.h"
#include "engine/train/saving.h"
#include "engine/train/signals.h"
#include "engine/train/terminal.h"
#include "engine/train/training.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/directory.h"
#include "io/data/open.h"
#include "io/data/prefetch.h"

namespace oxrse::train {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

void warn(const std::string& text) { std::fputs(("warning: " + text + "\n").c_str(), stderr); }  // whether or not anybody reads it

/// One line about long work before training, redrawn on a terminal.
void show_progress(const io::Progress& progress) {
  if (isatty(STDOUT_FILENO) == 0) return;
  const bool done = progress.done >= progress.total;
  show(fmt::format("\r\033[K{} {:.0f}%{}", progress.what,
                   100.0 * static_cast<double>(progress.done) / static_cast<double>(std::max<std::int64_t>(progress.total, 1)),
                   done ? "\r\033[K" : ""));
}

/// Where the checkpoint is that a run goes on from, if there is one. Refuses a directory that holds another run.
std::optional<std::filesystem::path> checkpoint_to_resume(const std::string& resume, const RunDirectory& directory) {
  const bool exists = io::holds_checkpoint(directory.checkpoints(), io::Need::Everything);
  require(resume != "never" || !exists,
          "{}: holds checkpoints of an earlier run: set run.dir to another directory, remove this one, or leave out --resume never",
          directory.path().string());
  if (resume == "never" || (resume == "auto" && !exists)) return std::nullopt;
  return resume == "auto" ? directory.checkpoints() : std::filesystem::path(resume);
}

/// The step of the complete checkpoint in files that was saved last; -1 when there is none.
std::int64_t newest_step(const RunDirectory& directory) {
  if (!std::filesystem::exists(directory.checkpoints())) return -1;
  for (const io::FoundCheckpoint& found : io::find_checkpoints(directory.checkpoints())) {
    if (found.manifest && !found.manifest->weights_only) return found.directory.step;
  }
  return -1;
}

/// Calls `restore` on every rank; what is damaged for one of them is damaged for all, so that all go on from the same checkpoint.
void restore_together(Ranks& ranks, const std::filesystem::path& directory, const std::function<void()>& restore) {
  std::optional<io::Damage> damage;
  try {
    restore();
  } catch (const io::Damage& found) {
    damage = found;
  }
  if (!ranks.any(damage.has_value())) return;
  if (damage) throw io::Damage(*damage);
  throw io::Damage(directory.string() + " is damaged where another rank reads it");
}

void require_same_run(const io::Checkpoint& checkpoint, const Json& effective) {
  const std::vector<std::string> different = incompatibilities(checkpoint.config(), effective);
  if (different.empty()) return;
  std::string list;
  for (const std::string& line : different) list += "\n  " + line;
  fail("{}: was made with another config; set run.dir to another directory for a new run, or restore (before -> now):{}",
       checkpoint.directory().string(), list);
}

/// Another device computes the same up to rounding.
void warn_of_device(const io::Checkpoint& checkpoint, const Json& effective) {
  const auto device_of = [](const Json& config) {
    const std::string name = config.value("/run/device"_json_pointer, "auto");
    return name == "auto" ? "cpu" : name;
  };
  const std::string before = device_of(checkpoint.config()), now = device_of(effective);
  if (before == now) return;
  warn(fmt::format("{} was saved on run.device \"{}\", the run goes on on \"{}\": with the same numbers up to rounding, not the same bits",
                   checkpoint.directory().string(), before, now));
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
  void print_header(const Plan& plan) const;
  std::optional<std::filesystem::path> find_checkpoint(const std::string& resume);
  std::optional<std::filesystem::path> find_copy(const std::string& resume, std::int64_t bytes);
  bool restore_copy(const std::filesystem::path& copy, bool has_files);
  void restore_files(const std::filesystem::path& files, const Json& effective);
  void end_copies();
  const char* stop_request();
  void take_step();
  void evaluate();
  void print_sample();
  void train_steps();
  void save_after(const Error& error);
  void check_skipped(const StepReport& report);
  void print_saving() const;
  void print_summary() const;
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
  std::int64_t first_step_ = 0;
  const char* stopped_by_ = nullptr;  // a signal
  double model_flops_ = 0;
  double checkpoint_ms_ = 0;
  double step_ms_ = 0;  // of all steps together
  std::optional<double> validation_loss_;
  std::optional<double> last_loss_;
  Clock::time_point begin_ = Clock::now();
};

Run::Run(Config config, const std::string& resume, Ranks& ranks)
    : ranks_(ranks), config_(std::move(config)), device_(find_device(config_.run.device)) {
  std::optional<io::Checkpoint> initial;
  if (config_.run.init) {
    initial = io::Checkpoint::open(*config_.run.init, warn);
    if (config_.model.is_null()) config_.model = model_of_checkpoint(*initial);
  }
  // What the first rank caches, the others read.
  ranks_.first_alone([&] {
    tokenizer_ = io::open_tokenizer(config_.data, show_progress);
    model_ = resolve_model(config_, tokenizer_ ? tokenizer_->vocab_size() : 0);
    if (initial) require_same_tokens(*initial, tokenizer_.get(), model_);
    data_ = io::open_training_data(
        config_.data, tokenizer_.get(),
        {.context = config_.train.context, .seed = static_cast<std::uint64_t>(config_.run.seed), .vocab = model_.vocab}, show_progress);
  });
  config_.model = write_config(model_);
  const Plan plan = make_plan(config_, model_, ranks_.communicator());
  model_flops_ = plan.model_flops;
  print_header(plan);
  if (ranks_.first() && config_.optimizer.warmup_steps >= config_.train.steps && config_.train.steps > 0) {
    warn(fmt::format("optimizer.warmup_steps {} is not below train.steps {}: the rate reaches optimizer.lr at the last step or never",
                     config_.optimizer.warmup_steps, config_.train.steps));
  }
  require_fits(plan, config_, device_);

  const Json effective = write_config(config_);
  const auto files = find_checkpoint(resume), copy = find_copy(resume, plan.own_bytes);
  if (copy || files) {  // before anything is allocated
    const io::Checkpoint saved = io::Checkpoint::open_unverified(copy ? *copy : *files);
    require_same_run(saved, effective);
    if (ranks_.first()) warn_of_device(saved, effective);
  }
  arena_ = Arena::allocated(plan.memory.total(), device_);
  context_ = Context{.mode = Mode::Run, .cpu = {ranks_.threads()}, .arena = &*arena_, .log = nullptr, .device = device_};
  training_ = std::make_unique<Training>(context_, config_, model_, ranks_.communicator());
  context_.wait();  // what is loaded now must not be overwritten
  const bool from_copy = copy && restore_copy(*copy, files.has_value());
  if (from_copy) {
    show(fmt::format("resumed  {} at step {}\n", copy->string(), progress_.step));
  } else if (files) {
    restore_files(*files, effective);
  } else if (initial) {
    load_weights(context_, training_->parameters(), *initial);
    training_->optimizer().round_weights(context_);
    show(fmt::format("weights  from {}\n", initial->directory().string()));
  } else {
    training_->initialize();
  }
  first_step_ = progress_.step;
  batches_ = std::make_unique<io::PrefetchedDataset>(*data_.train, config_.train.context, 2 * config_.train.micro_batch,
                                                     training_->samples_of_step());
  const std::string first_rank_step = ranks_.from_first(std::to_string(first_step_));
  require(first_rank_step == std::to_string(first_step_),
          "this rank found a checkpoint of step {}, rank 0 one of step {}: do all see the same files?", first_step_, first_rank_step);
  training_->share_weights();
  if (directory_) {
    directory_->write_config(effective);
    if (tokenizer_) directory_->write_tokenizer(tokenizer_->to_json());
    recorder_ = std::make_unique<Recorder>(*directory_, config_, progress_.step);
  }
  terminal_ = std::make_unique<Terminal>(first_step_, config_.train.steps, config_.log.every);
  const Checkpointer::Places places{.files = std::filesystem::path(config_.directory()) / "checkpoints",
                                    .copies = copies_ ? &*copies_ : nullptr};
  checkpointer_ = std::make_unique<Checkpointer>(*training_, config_, places, tokenizer_ ? tokenizer_->to_json() : "", data_.train.get(),
                                                 [this](const std::string& text) { terminal_->note(text); });
  if (files && !from_copy) checkpointer_->resumed_at(progress_.step);
}

/// False on all ranks, with a warning, when the copy turns out not to be whole and files can take its place.
bool Run::restore_copy(const std::filesystem::path& copy, bool has_files) {
  if (!copies_->fetch(files_to_restore(*training_, io::read_manifest(copy)), warn)) return false;
  try {
    restore_together(ranks_, copy, [&] { progress_ = restore(*training_, io::Checkpoint::open_part(copy), data_.train.get()); });
  } catch (const io::Damage& damage) {
    copies_->discard();
    if (!has_files) throw;
    warn(fmt::format("{}; this copy is not used", damage.what()));
    return false;
  }
  return true;
}

void Run::restore_files(const std::filesystem::path& files, const Json& effective) {
  io::Checkpoint::load(files, warn, io::Need::Everything, [&](const io::Checkpoint& checkpoint) {
    require_same_run(checkpoint, effective);
    restore_together(ranks_, checkpoint.directory(), [&] { progress_ = restore(*training_, checkpoint, data_.train.get()); });
    show(fmt::format("resumed  {} at step {}\n", checkpoint.directory().string(), progress_.step));
  });
}

/// The checkpoint the run goes on from, if there is one: the first rank, which alone holds the directory, looks for all.
std::optional<std::filesystem::path> Run::find_checkpoint(const std::string& resume) {
  std::optional<std::filesystem::path> found;
  if (ranks_.first()) {
    directory_.emplace(config_.directory());
    found = checkpoint_to_resume(resume, *directory_);
  }
  const std::string path = ranks_.from_first(found ? found->string() : "");
  if (path.empty()) return std::nullopt;
  return std::filesystem::path(path);
}

/// The copy in the memory of the nodes that the run goes on from rather than from files, if there is one. Those of a run that goes on from
/// elsewhere are removed.
std::optional<std::filesystem::path> Run::find_copy(const std::string& resume, std::int64_t bytes) {
  const std::string run =
      ranks_.from_first(directory_ ? std::filesystem::absolute(directory_->path()).string() + " " + directory_->id() : "");
  if (!config_.checkpoint.peer) {
    PeerCopies::forget(config_.checkpoint, run);
    return std::nullopt;
  }
  copies_.emplace(config_.checkpoint, run, bytes, ranks_.communicator(), ranks_.first_of_node());
  copies_->start_holder(std::filesystem::read_symlink("/proc/self/exe"));
  if (resume == "auto")
    return copies_->choose(std::stoll(ranks_.from_first(std::to_string(directory_ ? newest_step(*directory_) : -1))), warn);
  copies_->discard();
  return std::nullopt;
}

/// Once the end of the run is in files.
void Run::end_copies() {
  if (!copies_) return;
  if (ranks_.communicator() != nullptr) ranks_.communicator()->barrier("waiting for the last checkpoint", false);
  copies_->end();
}

void Run::print_header(const Plan& plan) const {
  show(fmt::format("oxrse {} ({})\n", build_info().version, build_info().commit));
  show(fmt::format("run      {} in {}\n", config_.run.name, config_.directory()));
  show(fmt::format("model    {} parameters: {} layers, width {}, {} heads ({} key/value), vocabulary {}, context {}\n",
                   format_count(static_cast<double>(plan.parameters)), model_.layers, model_.width, model_.heads, model_.kv_heads,
                   model_.vocab, model_.context));
  show(fmt::format("data     {}\n", data_.train->describe()));
  for (const std::string& note : data_.notes) show(fmt::format("         {}\n", note));
  if (data_.validation) show(fmt::format("         evaluation: {}\n", data_.validation->describe()));
  show(fmt::format("step     {} tokens: {} micro-batches of {} samples of {} tokens; {} FLOP\n", static_cast<std::int64_t>(plan.tokens),
                   config_.micro_batches(), config_.train.micro_batch, config_.train.context, format_count(plan.model_flops)));
  show(fmt::format("memory   {} planned: weights {}, gradients {}, optimizer {}, activations {}, workspace {}, snapshot {}, process {}{}\n",
                   format_bytes(static_cast<double>(plan.total_bytes())), format_bytes(static_cast<double>(plan.memory[Memory::Weights])),
                   format_bytes(static_cast<double>(plan.memory[Memory::Gradients])),
                   format_bytes(static_cast<double>(plan.memory[Memory::Optimizer])),
                   format_bytes(static_cast<double>(plan.memory[Memory::Activations])),
                   format_bytes(static_cast<double>(plan.memory[Memory::Workspace])),
                   format_bytes(static_cast<double>(plan.snapshot_bytes)), format_bytes(static_cast<double>(plan.process_bytes)),
                   plan.peer_bytes > 0 ? ", peer copies " + format_bytes(static_cast<double>(plan.peer_bytes)) : ""));
  show(fmt::format("device   {}, {} threads{}, {}\n", device_ == nullptr ? "cpu" : device_->description(), ranks_.threads(),
                   ranks_.size() > 1 ? fmt::format(" for each of {} ranks", ranks_.size()) : "", config_.precision.compute));
  if (device_ != nullptr && ranks_.size() > 1) {
    show(fmt::format("ranks    sums go {}\n", plan.linked ? "from GPU to GPU, by NCCL" : "through the hosts, by MPI"));
  }
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
  print_summary();
}

void Run::train_steps() {
  while (progress_.step < config_.train.steps && (stopped_by_ = stop_request()) == nullptr) {
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
  step_ms_ += step_ms;
  ++progress_.step;
  last_loss_ = report.loss;
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
  if (result.valid_tokens > 0) validation_loss_ = result.loss;
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

/// What the checkpoints of this run have cost, and how often to save if the config says how often failures come.
void Run::print_saving() const {
  const SaveTotals& totals = checkpointer_->totals();
  if (totals.saved == 0) return;
  const auto saved = static_cast<double>(totals.saved);
  terminal_->note(fmt::format("saved    {} checkpoint{} of {}{}: training stood still for {:.3g} ms each, {}/s to the disk", totals.saved,
                              totals.saved == 1 ? "" : "s", format_bytes(static_cast<double>(totals.bytes)),
                              totals.skipped > 0 ? fmt::format(", {} skipped", totals.skipped) : "", totals.stall_ms / saved,
                              format_bytes(totals.written_bytes / totals.write_ms * 1e3)));
  const double steps = static_cast<double>(progress_.step - first_step_);
  if (config_.checkpoint.mtbf_h <= 0 || steps <= 0) return;
  const SaveCost cost{.stall = totals.stall_ms / saved / 1e3, .delay = totals.write_ms / saved / 1e3, .step = step_ms_ / steps / 1e3};
  terminal_->note("advice   " + advise(cost, config_.checkpoint.mtbf_h, config_.checkpoint.every));
}

void Run::print_summary() const {
  const std::string run = config_.directory();
  const double seconds = milliseconds(begin_, Clock::now()) / 1e3;
  if (stopped_by_ != nullptr) {
    terminal_->note(fmt::format("{}: stopped and saved at step {} of {}; run the same command again to go on", stopped_by_, progress_.step,
                                config_.train.steps));
  } else if (first_step_ == progress_.step && first_step_ > 0) {
    terminal_->note(
        fmt::format("nothing to do: {} is at step {} of {}; raise train.steps to go on", run, progress_.step, config_.train.steps));
    return;
  } else {
    std::string losses;
    if (last_loss_) losses += fmt::format(", loss {:.4f}", *last_loss_);
    if (validation_loss_) losses += fmt::format(", evaluation {:.4f}", *validation_loss_);
    terminal_->note(fmt::format("done: {} steps in {}{}", progress_.step - first_step_, format_duration(seconds), losses));
  }
  print_saving();
  if (progress_.skipped > 0) terminal_->note(fmt::format("{} steps were skipped for gradients that were not finite", progress_.skipped));
  terminal_->note(fmt::format(
      "memory   {} at the most\nwritten  {}: checkpoints/, metrics.jsonl{}, config.json{}\nnext     oxrse generate {} --prompt TEXT",
      format_bytes(static_cast<double>(peak_resident_bytes())), run, config_.log.tensorboard ? ", tensorboard/" : "",
      tokenizer_ ? ", tokenizer.json" : "", run));
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

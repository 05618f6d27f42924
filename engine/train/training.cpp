#include "engine/train/training.h"

#include <bit>
#include <chrono>

#include "engine/ops/elementwise.h"

namespace oxrse::train {
namespace {

nn::Recompute recompute_of(const std::string& name) {
  if (name == "attention") return nn::Recompute::Attention;
  return name == "block" ? nn::Recompute::Block : nn::Recompute::None;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double pairwise_sum(std::span<const double> values) {
  if (values.empty()) return 0;
  if (values.size() == 1) return values[0];
  const std::size_t left = std::bit_ceil(values.size()) / 2;  // the largest power of two below the size
  return pairwise_sum(values.first(left)) + pairwise_sum(values.subspan(left));
}

Training::Training(Context& context, const Config& config, const nn::ModelConfig& model, comm::Communicator* ranks)
    : context_(context),
      config_(config),
      shape_{.length = config.train.context,
             .rows = config.train.micro_batch,
             .global_batch = config.train.global_batch,
             .documents = config.data.packing == "documents"},
      model_(model, store_, recompute_of(config.train.recompute)),
      ranks_(ranks != nullptr && ranks->size() > 1 ? ranks : nullptr),
      micro_batches_(ranks_ == nullptr ? nn::MicroBatches{0, config.micro_batches(), config.micro_batches()}
                                       : nn::MicroBatches::of_rank(config.micro_batches(), ranks_->rank(), ranks_->size())) {
  store_.allocate(context, config.compute_type());
  model_.prepare(context, config.compute_type());
  const auto order = config.comm.deterministic ? nn::Gradients::Order::Pairwise : nn::Gradients::Order::Sequential;
  gradients_.allocate(context, store_, micro_batches_, order);
  if (ranks_ != nullptr && !context.planning()) {
    gradient_sum_.emplace(*ranks_, gradients_, config.micro_batches(), order, accumulator_of(config.compute_type()),
                          static_cast<std::int64_t>(config.comm.bucket_mib * (1 << 20)));
  }
  optimizer_.allocate(context, config.optimizer, store_,
                      config.precision.stochastic_rounding ? std::optional(static_cast<std::uint64_t>(config.run.seed)) : std::nullopt);
  if (config.compute_type() == DType::F16) scaler_ = optim::LossScaler(config.precision.loss_scale);
  losses_ = context.arena->make(DType::F64, {config.micro_batches()}, Memory::Workspace);
}

double Training::gradient_scale() const {
  return scaler_.active() ? scaler_.scale() / static_cast<double>(config_.train.global_batch * config_.train.context) : 1;
}

StepReport Training::step(const io::Dataset* data, std::int64_t step) {
  StepReport report;
  accumulate(data, step, report);
  update(report);
  return report;
}

void Training::train_micro_batch(const io::Dataset* data, std::int64_t step, std::int64_t m, StepReport& report) {
  const ArenaScope scope(*context_.arena);
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t first = step * shape_.global_batch + m * shape_.rows;
  const nn::Batch batch = read_batch(context_, shape_, data, first, shape_.rows, report.valid_tokens);
  report.data_ms += milliseconds_since(start);
  if (context_.planning() && context_.log != nullptr) context_.log->repeat(micro_batches_.count);
  const nn::Pass pass{.context = context_,
                      .parameters = store_,
                      .batch = batch,
                      .gradients = &gradients_,
                      .seed = static_cast<std::uint64_t>(config_.run.seed),
                      .step = step,
                      .loss_scale = gradient_scale()};
  model_.train(pass, losses_.slice(0, m, m + 1));
  if (context_.planning() && context_.log != nullptr) context_.log->repeat(1);
}

void Training::accumulate(const io::Dataset* data, std::int64_t step, StepReport& report) {
  gradients_.begin_step();
  ops::run(context_, ops::Fill{.y = losses_, .value = 0});
  for (std::int64_t i = 0; i < micro_batches_.count; ++i) {
    if (!context_.planning() || i == 0) train_micro_batch(data, step, micro_batches_.first + i, report);
    gradients_.end_micro_batch(context_);
  }
  sum_over_ranks(report);
  gradients_.end_step(context_);
}

void Training::sum_over_ranks(StepReport& report) {
  if (ranks_ == nullptr || context_.planning()) return;
  const auto start = std::chrono::steady_clock::now();
  ranks_->all_reduce(losses_, "losses");  // those of other ranks' micro-batches are 0 here
  double tokens[] = {static_cast<double>(report.valid_tokens)};
  ranks_->all_reduce(tokens, "tokens");
  report.valid_tokens = static_cast<std::int64_t>(tokens[0]);
  gradient_sum_->run(gradients_);
  report.comm_ms = milliseconds_since(start);
}

void Training::update(StepReport& report) {
  // One division by the number of valid tokens of the whole global batch; with none, loss and gradient are zero.
  const double mean = report.valid_tokens > 0 ? 1.0 / static_cast<double>(report.valid_tokens) : 0.0;
  const std::int64_t done = context_.planning() ? 0 : optimizer_.updates();
  report.lr = optim::learning_rate(config_.optimizer, done, config_.train.steps);
  optimizer_.update(context_, gradients_, report.lr, mean / gradient_scale(), config_.train.clip);
  if (context_.planning()) return;
  const optim::UpdateReport update = optimizer_.report();
  report.grad_norm = update.norm;
  report.applied = update.applied;
  report.loss = pairwise_sum({losses_.data<double>(), static_cast<std::size_t>(losses_.count())}) * mean;
  report.loss_scale = scaler_.scale();
  scaler_.update(report.applied);
}

}  // namespace oxrse::train

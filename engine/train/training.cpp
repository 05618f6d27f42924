#include "engine/train/training.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "engine/ops/elementwise.h"

namespace oxrse::train {
namespace {

nn::Recompute recompute_of(const std::string& name) {
  if (name == "attention") return nn::Recompute::Attention;
  return name == "block" ? nn::Recompute::Block : nn::Recompute::None;
}

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

/// One division by the number of valid tokens of the whole global batch; with none, loss and gradient are zero.
double mean_over(std::int64_t tokens) { return tokens > 0 ? 1.0 / static_cast<double>(tokens) : 0.0; }

nn::Gradients::Order order_of(const Config& config) {
  return config.comm.deterministic ? nn::Gradients::Order::Pairwise : nn::Gradients::Order::Sequential;
}

}  // namespace

double pairwise_sum(std::span<const double> values) {
  if (values.empty()) return 0;
  if (values.size() == 1) return values[0];
  const std::size_t left = std::bit_ceil(values.size()) / 2;  // the largest power of two below the size
  return pairwise_sum(values.first(left)) + pairwise_sum(values.subspan(left));
}

Training::Training(Context& context, const Config& config, const nn::ModelConfig& model, const parallel::Group& group)
    : context_(context),
      config_(config),
      shape_{.length = config.train.context,
             .rows = config.train.micro_batch,
             .global_batch = config.train.global_batch,
             .documents = config.data.packing == "documents"},
      model_(model, store_, recompute_of(config.train.recompute)),
      group_(group),
      micro_batches_(nn::MicroBatches::of_rank(config.micro_batches(), group.rank, group.size)) {
  const DType compute = config.compute_type();
  if (group_.size > 1) {
    buckets_ = parallel::make_buckets(store_, compute, static_cast<std::int64_t>(config.comm.bucket_mib * (1 << 20)), group_.size);
  }
  const bool shares = shares_optimizer();
  store_.allocate(context, compute, shares ? pieces_of(store_, compute, buckets_, group_.rank) : std::vector<nn::Piece>());
  model_.prepare(context, compute);
  gradients_.allocate(context, store_, micro_batches_, order_of(config));
  optimizer_.allocate(context, config.optimizer, store_,
                      config.precision.stochastic_rounding ? std::optional(static_cast<std::uint64_t>(config.run.seed)) : std::nullopt);
  if (compute == DType::F16) scaler_ = optim::LossScaler(config.precision.loss_scale);
  losses_ = context.arena->make(DType::F64, {config.micro_batches()}, Memory::Workspace);
  if (group_.communicator != nullptr && !context.planning()) connect_ranks();
}

parallel::SumSpec Training::sum_spec() const {
  return {.total = config_.micro_batches(),
          .order = order_of(config_),
          .type = accumulator_of(config_.compute_type()),
          .scattered = shares_optimizer()};
}

void Training::connect_ranks() {
  gradient_sum_.emplace(*group_.communicator, buckets_, sum_spec());
  if (shares_optimizer()) weight_gather_.emplace(*group_.communicator, buckets_, config_.compute_type());
  if (!config_.comm.overlap) return;
  gradients_.on_ready([this](std::int64_t begin) {
    const Clock::time_point start = Clock::now();
    context_.wait();
    gradient_sum_->start(gradients_, begin);
    comm_ms_ += milliseconds_since(start);
  });
}

double Training::gradient_scale() const {
  return scaler_.active() ? scaler_.scale() / static_cast<double>(config_.train.global_batch * config_.train.context) : 1;
}

/// Ranks whose kernels were chosen each for itself would have other bits when the choice is another in the next run.
Training::Agreement::Agreement(const Training& training) : device_(training.context_.device) {
  comm::Communicator* const ranks = training.group_.communicator;
  if (device_ == nullptr || ranks == nullptr) return;
  device_->agree([ranks](const std::function<std::string()>& measure) {
    return ranks->broadcast(ranks->rank() == 0 ? measure() : "", 0, "choice of a kernel");
  });
}

Training::Agreement::~Agreement() {
  if (device_ != nullptr) device_->agree(nullptr);
}

StepReport Training::step(const io::Dataset* data, std::int64_t step) {
  const Agreement agreement(*this);
  StepReport report;
  const auto work = [&] {
    accumulate(data, step, report);
    start_update(report);
  };
  // Ranks exchange numbers within a step, and a log times every op: then a device cannot have the step as a whole.
  const bool whole = context_.device != nullptr && group_.communicator == nullptr && context_.log == nullptr && !context_.planning();
  if (whole) {
    context_.device->run_step(work);
  } else {
    work();
  }
  finish_update(report);
  return report;
}

void Training::train_micro_batch(const io::Dataset* data, std::int64_t step, std::int64_t m, StepReport& report) {
  const ArenaScope scope(*context_.arena);
  const Clock::time_point start = Clock::now();
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
  comm_ms_ = 0;
  const std::int64_t done = context_.planning() ? 0 : optimizer_.updates();
  report.lr = optim::learning_rate(config_.optimizer, done, config_.train.steps);
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
  if (!gradient_sum_) return;
  const Clock::time_point start = Clock::now();
  context_.wait();
  gradient_sum_->start(gradients_, 0);
  comm::Communicator& ranks = *group_.communicator;
  ranks.all_reduce(losses_, "losses");  // those of other ranks' micro-batches are 0 here
  double tokens[] = {static_cast<double>(report.valid_tokens)};
  ranks.all_reduce(tokens, "tokens");
  report.valid_tokens = static_cast<std::int64_t>(tokens[0]);
  gradient_sum_->wait();
  comm_ms_ += milliseconds_since(start);
}

/// With a shared optimizer no rank has the squares of all gradients.
optim::SumOverRanks Training::sum_of_squares() {
  if (!weight_gather_) return {};
  return [this](const Tensor& sums) {
    const Clock::time_point start = Clock::now();
    context_.wait();
    group_.communicator->all_reduce(sums, "squares of gradients");
    comm_ms_ += milliseconds_since(start);
  };
}

void Training::update(StepReport& report) {
  start_update(report);
  finish_update(report);
}

void Training::start_update(const StepReport& report) {
  const double mean = mean_over(report.valid_tokens);
  optimizer_.update(context_, gradients_, report.lr, mean / gradient_scale(), config_.train.clip, sum_of_squares());
}

void Training::finish_update(StepReport& report) {
  if (context_.planning()) return;
  context_.wait();
  if (weight_gather_) {
    const Clock::time_point start = Clock::now();
    weight_gather_->run(store_.weights());
    comm_ms_ += milliseconds_since(start);
  }
  report.comm_ms = comm_ms_;
  const optim::UpdateReport update = optimizer_.report();
  report.grad_norm = update.norm;
  report.applied = update.applied;
  report.loss = pairwise_sum({losses_.data<double>(), static_cast<std::size_t>(losses_.count())}) * mean_over(report.valid_tokens);
  report.loss_scale = scaler_.scale();
  scaler_.update(report.applied);
}

}  // namespace oxrse::train

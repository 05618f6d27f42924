#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/nn/gradients.h"
#include "engine/nn/model.h"
#include "engine/optim/optimizer.h"
#include "engine/parallel/gradient_sum.h"
#include "engine/parallel/group.h"
#include "engine/parallel/weight_gather.h"
#include "engine/train/batches.h"
#include "engine/train/config.h"
#include "engine/train/evaluation.h"
#include "engine/train/ranks.h"
#include "io/data/prefetch.h"

namespace oxrse::train {

/// What a training step did.
struct StepReport {
  double loss = 0;       // nats, mean over the valid target tokens of the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  bool applied = true;  // false: the gradient was not finite and the step changed nothing
  std::int64_t valid_tokens = 0;
  double loss_scale = 1;  // of this step
  double data_ms = 0;     // waiting for samples
  double comm_ms = 0;     // spent on communication that computing did not hide, or waiting for other ranks
};

/// A model in training: weights, gradients, optimizer and the step that moves them, all in the arena of one context. Building it in a
/// planning context and running `step` there gives the memory, the FLOPs and the op list of the real thing. Data-parallel ranks each have
/// one, of the same config, and compute equal shares of a step's micro-batches; all get the same weights, reports and evaluations. With
/// parallel.zero 1 each updates a share of the weights, and only keeps masters and moments of that.
class Training {
 public:
  /// `model` must be resolved. Allocates everything that outlives a step.
  Training(Context& context, const Config& config, const nn::ModelConfig& model, const parallel::Group& group = {});
  ~Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Draws the initial weights.
  void initialize() {
    store_.initialize(context_, static_cast<std::uint64_t>(config_.run.seed));
    optimizer_.round_weights(context_);
    share_weights();
  }
  /// Gives every rank the weights that each has made of its own masters, after these were drawn or loaded.
  void share_weights() {
    context_.wait();
    if (weight_gather_) weight_gather_->run(store_.weights());
  }

  /// One optimizer step on the samples first, first+1, ... of `data` (absent when planning). `step` counts from 0.
  StepReport step(const io::Dataset* data, std::int64_t step);
  /// The two halves of `step`: gradients of the global batch and the learning rate, then the update.
  void accumulate(const io::Dataset* data, std::int64_t step, StepReport& report);
  void update(StepReport& report);

  /// Which samples of every step this rank reads.
  [[nodiscard]] io::ReadOrder samples_of_step() const {
    return {.first = micro_batches_.first * shape_.rows, .count = micro_batches_.count * shape_.rows, .period = shape_.global_batch};
  }

  /// Mean loss over samples [0, samples) of `data`, in order, micro_batch at a time.
  Evaluation evaluate(const io::Dataset* data, std::int64_t samples) {
    return train::evaluate(context_, store_, model_, shape_, data, samples, group_.communicator);
  }

  [[nodiscard]] nn::ParameterStore& parameters() { return store_; }
  [[nodiscard]] nn::Gradients& gradients() { return gradients_; }
  [[nodiscard]] optim::Optimizer& optimizer() { return optimizer_; }
  optim::LossScaler& scaler() { return scaler_; }
  [[nodiscard]] const nn::Model& model() const { return model_; }
  [[nodiscard]] Context& context() { return context_; }
  [[nodiscard]] const parallel::Group& group() const { return group_; }
  /// Whether each rank keeps the optimizer's state of its own share of the weights only.
  [[nodiscard]] bool shares_optimizer() const { return group_.size > 1 && config_.parallel.zero > 0; }
  /// The most bytes that sums over ranks take besides the gradients.
  [[nodiscard]] std::int64_t communication_bytes() const {
    return parallel::scratch_of_sums(buckets_, sum_spec(), group_, choice_of(config_.comm));
  }

 private:
  /// What losses are multiplied with before backward. Gradients are sums over tokens; in fp16 their range is that of means.
  [[nodiscard]] double gradient_scale() const;

  /// While it exists the devices of the ranks agree about their kernels.
  class Agreement {
   public:
    explicit Agreement(const Training& training);
    ~Agreement();
    Agreement(const Agreement&) = delete;
    Agreement& operator=(const Agreement&) = delete;

   private:
    Device* device_;
  };

  /// The ops of an update, and what is left when they are done.
  void start_update(const StepReport& report);
  void finish_update(StepReport& report);
  [[nodiscard]] parallel::SumSpec sum_spec() const;
  /// What sums over ranks need, made once; not in plans.
  void connect_ranks();
  /// Losses, tokens and gradients of all ranks.
  void sum_over_ranks(StepReport& report);
  optim::SumOverRanks sum_of_squares();

  /// Forward and backward pass of micro-batch m of a step. A plan runs the first for all of them.
  void train_micro_batch(const io::Dataset* data, std::int64_t step, std::int64_t m, StepReport& report);

  Context& context_;
  Config config_;
  BatchShape shape_;
  nn::ParameterStore store_;
  nn::Model model_;
  nn::Gradients gradients_;
  optim::Optimizer optimizer_;
  optim::LossScaler scaler_;
  Tensor losses_;  // (micro-batches of all ranks) f64
  parallel::Group group_;
  nn::MicroBatches micro_batches_;
  std::vector<parallel::Bucket> buckets_;
  std::optional<parallel::GradientSum> gradient_sum_;
  std::optional<parallel::WeightGather> weight_gather_;  // when the optimizer is shared
  double comm_ms_ = 0;                                   // of this step, as far as it has come
};

/// Sum of `values` as a binary tree over aligned blocks: the tree of nn::Gradients.
double pairwise_sum(std::span<const double> values);

}  // namespace oxrse::train

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/config.h"
#include "engine/core/config_field.h"
#include "engine/core/dtype.h"
#include "engine/nn/model.h"
#include "engine/nn/model_config.h"
#include "engine/optim/config.h"
#include "engine/optim/loss_scaler.h"
#include "io/checkpoint/config.h"
#include "io/data/config.h"
#include "io/metrics/config.h"

namespace oxrse::train {

/// Section "run".
struct RunConfig {
  std::string name = "run";
  std::string dir;
  std::int64_t seed = 1337;
  std::string device = "auto";
  std::optional<std::string> init;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.name, Field{.key = "name", .meaning = "what the run is called"});
    visit(self.dir, Field{.key = "dir", .meaning = "the run directory; empty: runs/<name>"});
    visit(self.seed, Field{.key = "seed", .meaning = "of initial weights, sample order and dropout", .min = 0});
    visit(self.device, Field{.key = "device", .meaning = "where to compute", .choices = {"auto", "cpu", "cuda", "cuda-emulated"}});
    visit(self.init, Field{.key = "init", .meaning = "checkpoint to take the weights from, at step 0"});
  }
};

/// Section "train".
struct TrainSection {
  std::int64_t steps = 1000;
  std::int64_t global_batch = 64;
  std::int64_t micro_batch = 4;
  std::int64_t context = 256;
  double clip = 1.0;
  std::int64_t eval_every = 100;
  std::int64_t eval_batches = 20;
  std::int64_t sample_every = 0;
  std::int64_t sample_tokens = 64;
  std::string sample_prompt = "\n";
  std::string recompute = "none";
  std::int64_t stop_after_skipped = 10;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.steps, Field{.key = "steps", .meaning = "optimizer steps; 0 saves the initial model", .unit = "steps", .min = 0});
    visit(self.global_batch,
          Field{.key = "global_batch", .meaning = "samples of a step, a multiple of micro_batch", .min = 1, .max = 1048576});
    visit(self.micro_batch, Field{.key = "micro_batch", .meaning = "samples of one forward and backward pass", .min = 1, .max = 1048576});
    visit(self.context, Field{.key = "context", .meaning = "length of a sample, at most the model's context", .unit = "tokens", .min = 1});
    visit(self.clip, Field{.key = "clip", .meaning = "largest global gradient norm; 0: no clipping", .min = 0});
    visit(self.eval_every, Field{.key = "eval_every", .meaning = "steps between evaluations; 0: never", .unit = "steps", .min = 0});
    visit(self.eval_batches, Field{.key = "eval_batches", .meaning = "micro-batches of an evaluation; 0: the whole set", .min = 0});
    visit(self.sample_every, Field{.key = "sample_every", .meaning = "steps between printed samples; 0: never", .unit = "steps", .min = 0});
    visit(self.sample_tokens, Field{.key = "sample_tokens", .meaning = "length of a printed sample", .unit = "tokens", .min = 1});
    visit(self.sample_prompt, Field{.key = "sample_prompt", .meaning = "what a printed sample continues"});
    visit(self.recompute, Field{.key = "recompute",
                                .meaning = "what backward computes again instead of keeping it",
                                .choices = {"none", "attention", "block"}});
    visit(self.stop_after_skipped, Field{.key = "stop_after_skipped",
                                         .meaning = "steps without a finite gradient in a row that end the run",
                                         .unit = "steps",
                                         .min = 1});
  }
};

/// Section "precision".
struct PrecisionConfig {
  std::string compute = "f32";
  std::string master = "f32";
  std::string gradients = "f32";
  bool stochastic_rounding = false;
  optim::LossScaleConfig loss_scale;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.compute, Field{.key = "compute", .meaning = "type of weights and activations", .choices = {"bf16", "fp16", "f32", "f64"}});
    visit(self.master,
          Field{.key = "master", .meaning = "type of master weights and moments; always f64 with compute f64", .choices = {"f32", "f64"}});
    visit(self.gradients,
          Field{.key = "gradients", .meaning = "type of gradient sums; always f64 with compute f64", .choices = {"f32", "f64"}});
    visit(self.stochastic_rounding,
          Field{.key = "stochastic_rounding",
                .meaning = "round bf16 weights up or down at random, so that small updates are not lost on average"});
    visit(self.loss_scale, Field{.key = "loss_scale", .meaning = "dynamic loss scale of fp16"});
  }
};

/// Section "parallel": how the work is spread over ranks.
struct ParallelConfig {
  Json data = "auto";
  std::int64_t zero = 0;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.data, Field{.key = "data", .meaning = "data-parallel ranks, or \"auto\": all there are"});
    visit(self.zero, Field{.key = "zero",
                           .meaning = "ZeRO stage: 1 shares the optimizer's work, masters and moments among the data-parallel ranks",
                           .min = 0,
                           .max = 3});
    visit(self.tensor, Field{.key = "tensor", .meaning = "tensor-parallel ranks", .min = 1});
    visit(self.pipeline, Field{.key = "pipeline", .meaning = "pipeline stages", .min = 1});
    visit(self.context, Field{.key = "context", .meaning = "context-parallel ranks", .min = 1});
    visit(self.expert, Field{.key = "expert", .meaning = "expert-parallel ranks", .min = 1});
  }
};

/// Section "comm".
struct CommConfig {
  std::string algorithm = "auto";
  double bucket_mib = 25;
  bool overlap = true;
  bool deterministic = true;
  double timeout_s = 600;
  std::string costs;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.algorithm,
          Field{.key = "algorithm", .meaning = "of all-reduce between ranks", .choices = {"auto", "ring", "tree", "halving", "direct"}});
    visit(self.bucket_mib, Field{.key = "bucket_mib", .meaning = "gradients reduced at once", .unit = "MiB", .min = 0, .above_min = true});
    visit(self.overlap, Field{.key = "overlap", .meaning = "reduce while backward goes on"});
    visit(self.deterministic, Field{.key = "deterministic",
                                    .meaning = "sum micro-batches pairwise, so that the bits do not depend on how they are spread; "
                                               "takes one more gradient buffer for every doubling of the micro-batches"});
    visit(self.timeout_s,
          Field{.key = "timeout_s", .meaning = "wait this long for another rank", .unit = "s", .min = 0, .above_min = true});
    visit(self.costs, Field{.key = "costs",
                            .meaning = "file of message times that auto chooses by, from `oxrse bench collectives "
                                       "--save-costs`; empty: they are measured at start"});
  }
};

/// A whole config.
struct Config {
  RunConfig run;
  Json model;
  io::DataConfig data;
  TrainSection train;
  optim::OptimizerConfig optimizer;
  PrecisionConfig precision;
  ParallelConfig parallel;
  CommConfig comm;
  io::CheckpointConfig checkpoint;
  io::LogConfig log;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.run, Field{.key = "run", .meaning = "the run"});
    visit(self.model, Field{.key = "model", .meaning = "a name from model_zoo/models, or an object with the keys model.*"});
    visit(self.data, Field{.key = "data", .meaning = "what to train on"});
    visit(self.train, Field{.key = "train", .meaning = "the training loop"});
    visit(self.optimizer, Field{.key = "optimizer", .meaning = "how weights are updated"});
    visit(self.precision, Field{.key = "precision", .meaning = "number types"});
    visit(self.parallel, Field{.key = "parallel", .meaning = "how the work is spread over ranks"});
    visit(self.comm, Field{.key = "comm", .meaning = "how sums over micro-batches and ranks are made"});
    visit(self.checkpoint, Field{.key = "checkpoint", .meaning = "saving"});
    visit(self.log, Field{.key = "log", .meaning = "what is recorded"});
  }

  [[nodiscard]] std::int64_t micro_batches() const { return train.global_batch / train.micro_batch; }
  [[nodiscard]] std::string directory() const { return run.dir.empty() ? "runs/" + run.name : run.dir; }
  [[nodiscard]] DType compute_type() const;
};

/// Reads and checks a config: every key by itself, then what keys say together. `model` becomes an object with all its keys, or stays
/// null when run.init has to say it.
Config load_config(const JsonDocument& document);

/// The decoder a config describes, with `vocab` (of the tokenizer, 0: unknown) where the model leaves it open.
nn::ModelConfig resolve_model(const Config& config, std::int64_t vocab);

/// Refuses a number of ranks that is not what the config asks for or that its batch cannot be shared by.
void check_ranks(const Config& config, int ranks);

/// Every key with its help text, for `--help-config`.
std::string help_text();

/// What differs between the configs of two runs that could not be one: everything but the number of steps and of ranks, how ranks talk,
/// the device, the run's name and directory, evaluation, samples, logging and checkpoints. Keys that `before` does not know yet had their
/// defaults.
std::vector<std::string> incompatibilities(const Json& before, const Json& now);

}  // namespace oxrse::train

#include "engine/train/config.h"

#include <algorithm>
#include <utility>

#include "io/model_zoo.h"

namespace oxrse::train {
namespace {

nn::ModelConfig read_model(const JsonNode& node) {
  nn::ModelConfig model;
  if (!node.value().is_string()) {
    read_config(node, model);
    return model;
  }
  try {
    read_config(io::read_model_zoo("models", node.value().get<std::string>()), model);
  } catch (const Error& error) {
    throw error.in(node.where());
  }
  return model;
}

void check_batches(const TrainSection& train) {
  const std::int64_t G = train.global_batch, M = train.micro_batch;
  require(M <= G, "train.micro_batch {} is above train.global_batch {}: raise train.global_batch or lower train.micro_batch", M, G);
  const std::int64_t below = G / M * M;
  require(G == below, "train.global_batch {} is not a multiple of train.micro_batch {}: the nearest values are {} and {}", G, M, below,
          below + M);
}

void check_parallel(const ParallelConfig& parallel) {
  const bool is_number = parallel.data.is_number_integer() && parallel.data > 0;
  require(parallel.data == "auto" || is_number, "parallel.data is {}: expected \"auto\" or a number of ranks", shown(parallel.data));
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"tensor", parallel.tensor}, {"pipeline", parallel.pipeline}, {"context", parallel.context}, {"expert", parallel.expert}};
  for (const auto& [key, size] : sizes) {
    require(size == 1, "parallel.{} is not supported by this build, whose ranks are data-parallel: leave it out", key);
  }
  require(parallel.zero <= 1, "parallel.zero {} is not supported by this build: 1 shares the optimizer, 0 nothing", parallel.zero);
}

void check_together(const Config& config) {
  check_batches(config.train);
  check_parallel(config.parallel);
  config.optimizer.validate();
  const bool f64 = config.precision.compute == "f64";
  require(config.run.device == "auto" || config.run.device == "cpu" || !f64,
          "precision.compute f64 is for the CPU: set run.device to \"cpu\", or compute in f32, bf16 or fp16 on \"{}\"", config.run.device);
  require(f64 || config.precision.master == "f32", "precision.master f64 goes with precision.compute f64 only");
  require(f64 || config.precision.gradients == "f32", "precision.gradients f64 goes with precision.compute f64 only");
  require(f64 || static_cast<float>(config.optimizer.eps) > 0, "optimizer.eps {} is 0 as a number of precision.master f32: raise it",
          config.optimizer.eps);
  require(!config.precision.stochastic_rounding || config.precision.compute == "bf16",
          "precision.stochastic_rounding is for precision.compute bf16, which is {}: leave it out", config.precision.compute);
  require(!config.model.is_null() || config.run.init.has_value(),
          "model is missing: name an entry of model_zoo/models (such as \"gpt2/124m\"), give an object, or set run.init to a checkpoint");
}

}  // namespace

DType Config::compute_type() const {
  if (precision.compute == "f64") return DType::F64;
  if (precision.compute == "bf16") return DType::BF16;
  if (precision.compute == "fp16") return DType::F16;
  return DType::F32;
}

Config load_config(const JsonDocument& document) {
  Config config;
  const JsonNode root(document);
  read_config(root, config);
  if (!config.model.is_null()) config.model = write_config(read_model(root.at("model")));
  try {
    check_together(config);
  } catch (const Error& error) {
    throw error.in(document.source);
  }
  return config;
}

nn::ModelConfig resolve_model(const Config& config, std::int64_t vocab) {
  nn::ModelConfig model;
  read_config(JsonDocument{.source = "model", .value = config.model, .lines = {}}, model);
  if (model.vocab == 0) model.vocab = vocab;
  require(vocab <= model.vocab, "the tokenizer has {} tokens, model.vocab is {}: raise model.vocab, or set it to 0", vocab, model.vocab);
  model = model.resolved();
  require(config.train.context <= model.context, "train.context {} is above model.context {}: lower train.context", config.train.context,
          model.context);
  return model;
}

void check_ranks(const Config& config, int ranks) {
  const Json& data = config.parallel.data;
  require(data == "auto" || data == ranks, "parallel.data is {}, but {} rank{} started: set it to \"auto\", or start as many", shown(data),
          ranks, ranks == 1 ? " was" : "s were");
  const std::int64_t G = config.train.global_batch, unit = config.train.micro_batch * ranks;
  const std::int64_t below = G / unit * unit;
  require(G % unit == 0, "train.global_batch {} is not a multiple of train.micro_batch {} times {} ranks: the nearest value{} {}{}", G,
          config.train.micro_batch, ranks, below > 0 ? "s are" : " is", below > 0 ? fmt::format("{} and ", below) : "", below + unit);
}

std::string help_text() { return config_help(Config()) + "\nThe keys of a model object:\n\n" + config_help(nn::ModelConfig()); }

std::vector<std::string> incompatibilities(const Json& before, const Json& now) {
  Json complete = write_config(Config());
  complete["model"] = write_config(nn::ModelConfig());
  complete.update(before, true);
  std::vector<std::string> found = config_differences(complete, now);
  const std::string_view free[] = {
      "run.name",       "run.dir",     "run.device",    "train.steps",   "train.eval_",    "train.sample_",   "train.stop_after_skipped",
      "log.",           "checkpoint.", "parallel.data", "parallel.zero", "comm.algorithm", "comm.bucket_mib", "comm.overlap",
      "comm.timeout_s", "comm.costs"};
  std::erase_if(found, [&](const std::string& line) {
    return std::any_of(std::begin(free), std::end(free), [&](std::string_view prefix) { return line.starts_with(prefix); });
  });
  return found;
}

}  // namespace oxrse::train

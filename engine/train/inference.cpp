#include "engine/train/inference.h"

#include <algorithm>

#include "engine/core/config.h"
#include "engine/train/saving.h"
#include "engine/train/terminal.h"
#include "io/finite.h"

namespace oxrse::train {
namespace {

io::Checkpoint open_checkpoint(const std::string& path) { return io::Checkpoint::open(path, warn); }

nn::ModelConfig model_of(const io::Checkpoint& checkpoint) {
  nn::ModelConfig model;
  read_config(JsonDocument{.source = checkpoint.directory().string(), .value = model_of_checkpoint(checkpoint), .lines = {}}, model);
  return model.resolved();
}

/// The value of section.key in the config of a checkpoint; imported models have only some sections.
template <class T>
T saved_or(const io::Checkpoint& checkpoint, const char* section, const char* key, const T& otherwise) {
  const Json& config = checkpoint.config();
  return config.contains(section) ? config.at(section).value(key, otherwise) : otherwise;
}

DType compute_of(const io::Checkpoint& checkpoint) {
  Config config;
  config.precision.compute = saved_or(checkpoint, "precision", "compute", config.precision.compute);
  return config.compute_type();
}

}  // namespace

Json model_of_checkpoint(const io::Checkpoint& checkpoint) {
  require(checkpoint.config().contains("model"), "{}: the checkpoint does not say what model it holds", checkpoint.directory().string());
  return checkpoint.config().at("model");
}

LoadedModel::LoadedModel(const std::string& path, BatchShape shape, int threads)
    : checkpoint_(open_checkpoint(path)), config_(model_of(checkpoint_)), shape_(shape) {
  if (!checkpoint_.tokenizer_json().empty())
    tokenizer_ = io::tokenizer_from_json(checkpoint_.tokenizer_json(), checkpoint_.directory().string());
  if (shape_.length == 0) shape_.length = std::min(config_.context, saved_or(checkpoint_, "train", "context", config_.context));
  shape_.documents = saved_or<std::string>(checkpoint_, "data", "packing", "stream") == "documents";
  const DType compute = compute_of(checkpoint_);
  const auto build = [&](Context& context, nn::ParameterStore& store, nn::Model& model) {
    store.allocate(context, compute);
    model.prepare(context, compute);
  };
  Arena planned = Arena::planned();
  {
    Context context{.mode = Mode::Plan, .cpu = {}, .arena = &planned, .log = nullptr};
    nn::ParameterStore store;
    nn::Model model(config_, store);
    build(context, store, model);
    if (shape_.rows > 0) train::evaluate(context, store, model, shape_, nullptr, shape_.rows);
    const std::int32_t any = 0;
    Generator(context, store, model).generate({&any, 1}, 1, {}, {});
  }
  arena_ = Arena::allocated(planned.peak().total());
  context_ = Context{.mode = Mode::Run, .cpu = {threads}, .arena = &*arena_, .log = nullptr};
  model_.emplace(config_, store_);
  build(context_, store_, *model_);
  load_weights(context_, store_, checkpoint_);
}

std::vector<std::string> LoadedModel::not_finite() const {
  std::vector<std::string> names;
  for (const nn::Parameter& p : store_.parameters()) {
    if (io::count_not_finite(p.compute) > 0) names.push_back(p.name);
  }
  return names;
}

}  // namespace oxrse::train

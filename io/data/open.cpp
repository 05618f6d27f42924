#include "io/data/open.h"

#include <cmath>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "io/data/blend.h"
#include "io/data/open_source.h"
#include "io/data/stream_dataset.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;

struct WeightedSource {
  std::string name;
  double weight = 1;
};

WeightedSource read_weighted_source(const Json& entry, std::size_t i) {
  const bool complete = entry.is_object() && entry.contains("source") && entry.contains("weight") && entry.size() == 2;
  require(complete && entry["source"].is_string() && entry["weight"].is_number(),
          "data.train[{}] is {}; expected {{\"source\": \"...\", \"weight\": 0.5}}", i, shown(entry));
  const auto weight = entry["weight"].get<double>();
  require(weight > 0 && std::isfinite(weight), "data.train[{}].weight is {}; weights are above 0", i, weight);
  return {.name = entry["source"].get<std::string>(), .weight = weight};
}

std::vector<WeightedSource> training_sources(const DataConfig& config) {
  if (config.train.is_string()) return {{.name = config.train.get<std::string>()}};
  require(config.train.is_array() && !config.train.empty(),
          "data.train is {}; expected a file, a directory or a list of {{source, weight}}", shown(config.train));
  std::vector<WeightedSource> sources;
  for (std::size_t i = 0; i < config.train.size(); ++i) sources.push_back(read_weighted_source(config.train[i], i));
  return sources;
}

fs::path cache_of(const DataConfig& config) { return config.cache ? fs::path(*config.cache) : default_cache(); }

TextOptions text_options_of(const DataConfig& config) { return {.skip_invalid = config.on_error == "skip"}; }

DatasetOptions options_of(const DataRequest& request, const Tokenizer* tokenizer) {
  DatasetOptions options{.context = request.context, .seed = request.seed, .documents = request.documents, .vocab = request.vocab};
  if (tokenizer != nullptr) options.end_of_text = tokenizer->end_of_text();
  return options;
}

/// All text of the training data, as one source.
Source training_text(const std::vector<WeightedSource>& names) {
  Source all;
  for (const WeightedSource& name : names) {
    const Source source = find_source(name.name);
    if (!all.name.empty()) all.name += ", ";
    all.name += source.name;
    if (source.kind == Source::Kind::Text) all.files.insert(all.files.end(), source.files.begin(), source.files.end());
  }
  return all;
}

/// The tokenizer that lies beside the token shards of one of the sources.
std::unique_ptr<Tokenizer> tokenizer_beside(const std::vector<WeightedSource>& sources) {
  for (const WeightedSource& source : sources) {
    const fs::path file = fs::path(source.name) / "tokenizer.json";
    if (find_source(source.name).kind == Source::Kind::Tokens && fs::exists(file)) return load_tokenizer(file.string());
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const DataConfig& config, const OnProgress& progress) {
  require(!config.tokenizer || !config.bpe_vocab,
          "data.tokenizer and data.bpe_vocab are both set; leave out bpe_vocab to use {}, or tokenizer to train one",
          config.tokenizer.value_or(""));
  if (config.tokenizer) return load_tokenizer(*config.tokenizer);
  const std::vector<WeightedSource> sources = training_sources(config);
  const Source text = training_text(sources);
  if (config.bpe_vocab) {
    require(!text.files.empty(), "{}: these are tokens already, so no tokenizer can be trained on them: leave out data.bpe_vocab",
            text.name);
    return open_trained_tokenizer(text, *config.bpe_vocab, cache_of(config), text_options_of(config), progress);
  }
  auto beside = tokenizer_beside(sources);
  require(
      beside != nullptr || text.files.empty(),
      "{}: text needs a tokenizer: set data.tokenizer to \"bytes\" or a tokenizer.json, or data.bpe_vocab to the size of one to be trained",
      text.name);
  return beside;
}

std::string note_of(const std::string& source, const TextReport& left_out) {
  if (left_out.invalid == 0) return "";
  std::string note = fmt::format("{}: {} invalid files or lines were left out", source, left_out.invalid);
  for (const std::string& reason : left_out.reasons) note += "; " + reason;
  return note;
}

TrainingData open_training_data(const DataConfig& config, const Tokenizer* tokenizer, const DataRequest& request,
                                const OnProgress& progress) {
  require(!config.validation || config.validation_fraction == 0,
          "data.validation and data.validation_fraction are both set; leave out one of them");
  DatasetOptions sequential = options_of(request, tokenizer);
  sequential.documents = config.packing == "documents";
  DatasetOptions options = sequential;
  options.shuffled = config.order == "shuffled";

  TrainingData data;
  const auto open = [&](const std::string& name) {
    OpenedSource opened = open_source(find_source(name), tokenizer, cache_of(config), text_options_of(config), progress);
    if (!opened.rebuilt.empty()) data.notes.push_back(fmt::format("warning: tokenised again, the cache was damaged: {}", opened.rebuilt));
    if (std::string note = note_of(name, opened.left_out); !note.empty()) data.notes.push_back(std::move(note));
    return std::move(opened.tokens);
  };
  TokenStream validation;
  std::vector<BlendDataset::Part> parts;
  for (const WeightedSource& source : training_sources(config)) {
    auto [rest, held_out] = open(source.name).hold_out(config.validation_fraction);
    validation.append(held_out);
    parts.push_back({std::make_unique<StreamDataset>(source.name, std::move(rest), options), source.weight});
  }
  require(config.validation_fraction == 0 || validation.size() > 0,
          "data.validation_fraction {} keeps not a single token of any training file: make it larger, or 0 for no evaluation",
          config.validation_fraction);
  std::string name = fmt::format("the last {:g}% of every training file", 100 * config.validation_fraction);
  if (config.validation) {
    name = *config.validation;
    validation = open(name);
  }
  if (config.validation || config.validation_fraction > 0) {
    data.validation = std::make_unique<StreamDataset>(name, std::move(validation), sequential);
  }
  data.train = parts.size() == 1 ? std::move(parts.front().data) : std::make_unique<BlendDataset>(std::move(parts));
  return data;
}

std::unique_ptr<Dataset> open_dataset(const std::string& source, const Tokenizer* tokenizer, const DataRequest& request,
                                      const OnProgress& progress) {
  TokenStream stream = open_source(find_source(source), tokenizer, default_cache(), {}, progress).tokens;
  return std::make_unique<StreamDataset>(source, std::move(stream), options_of(request, tokenizer));
}

}  // namespace oxrse::io

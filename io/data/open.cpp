#include "io/data/open.h"

#include <utility>

#include "engine/core/error.h"
#include "io/data/open_source.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;

std::string training_source(const DataConfig& config) {
  require(config.train.is_string(), "data.train is {}; expected the name of a file or directory", shown(config.train));
  return config.train.get<std::string>();
}

fs::path cache_of(const DataConfig& config) { return config.cache ? fs::path(*config.cache) : default_cache(); }

DatasetOptions options_of(const DataRequest& request, const Tokenizer* tokenizer) {
  DatasetOptions options{.context = request.context, .seed = request.seed, .vocab = request.vocab};
  if (tokenizer != nullptr) options.end_of_text = tokenizer->end_of_text();
  return options;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const DataConfig& config, const OnProgress& progress) {
  require(!config.tokenizer || !config.bpe_vocab,
          "data.tokenizer and data.bpe_vocab are both set; leave out bpe_vocab to use {}, or tokenizer to train one",
          config.tokenizer.value_or(""));
  if (config.tokenizer) return load_tokenizer(*config.tokenizer);
  const Source source = find_source(training_source(config));
  if (source.kind == Source::Kind::Tokens) {
    const fs::path beside = fs::path(source.name) / "tokenizer.json";
    require(!config.bpe_vocab, "{} is tokenised already, so no tokenizer can be trained on it: leave out data.bpe_vocab", source.name);
    return fs::exists(beside) ? load_tokenizer(beside.string()) : nullptr;
  }
  require(config.bpe_vocab.has_value(),
          "{} is text, which needs a tokenizer: set data.tokenizer to \"bytes\" or a tokenizer.json, or data.bpe_vocab to the size of one "
          "to be trained",
          source.name);
  return open_trained_tokenizer(source, *config.bpe_vocab, cache_of(config), progress);
}

TrainingData open_training_data(const DataConfig& config, const Tokenizer* tokenizer, const DataRequest& request,
                                const OnProgress& progress) {
  const std::string name = training_source(config);
  DatasetOptions options = options_of(request, tokenizer);
  options.documents = config.packing == "documents";
  DatasetOptions sequential = options;
  options.shuffled = config.order == "shuffled";
  TokenStream stream = open_source(find_source(name), tokenizer, cache_of(config), progress);
  TrainingData data;
  if (config.validation) {
    TokenStream validation = open_source(find_source(*config.validation), tokenizer, cache_of(config), progress);
    data.validation = std::make_unique<Dataset>(*config.validation, std::move(validation), sequential);
  } else if (config.validation_fraction > 0) {
    auto [rest, held_out] = stream.hold_out(config.validation_fraction);
    data.validation =
        std::make_unique<Dataset>(fmt::format("the held-out {} of {}", config.validation_fraction, name), std::move(held_out), sequential);
    stream = std::move(rest);
  }
  data.train = std::make_unique<Dataset>(name, std::move(stream), options);
  return data;
}

std::unique_ptr<Dataset> open_dataset(const std::string& source, const Tokenizer* tokenizer, const DataRequest& request,
                                      const OnProgress& progress) {
  TokenStream stream = open_source(find_source(source), tokenizer, default_cache(), progress);
  return std::make_unique<Dataset>(source, std::move(stream), options_of(request, tokenizer));
}

}  // namespace oxrse::io

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/data/config.h"
#include "io/data/dataset.h"
#include "io/data/progress.h"
#include "io/data/text_options.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {

/// The tokenizer that a config asks for: `tokenizer`; else the one that lies beside token shards; else one of `bpe_vocab` tokens trained
/// on the training text and kept in the cache; else none, which only token shards can do without.
std::unique_ptr<Tokenizer> open_tokenizer(const DataConfig& config, const OnProgress& progress = {});

/// What the data is opened for.
struct DataRequest {
  std::int64_t context = 0;
  std::uint64_t seed = 0;
  std::int64_t vocab = 0;  // of the model; 0: not checked
  bool documents = false;  // for open_dataset: keep documents apart; training data has data.packing
};

/// What training reads. Evaluation data is sequential; there is none when the config names none.
struct TrainingData {
  std::unique_ptr<Dataset> train, validation;
  std::vector<std::string> notes;  // what was left out of which source, for people
};

/// "t.jsonl: 2 invalid files or lines were left out; t.jsonl:7: not valid JSON; ...", or nothing when none were.
std::string note_of(const std::string& source, const TextReport& left_out);

/// Everything is opened, tokenised where it is text, and checked as far as is possible without reading terabytes.
TrainingData open_training_data(const DataConfig& config, const Tokenizer* tokenizer, const DataRequest& request,
                                const OnProgress& progress = {});

/// One source by itself, sequentially: for evaluation.
std::unique_ptr<Dataset> open_dataset(const std::string& source, const Tokenizer* tokenizer, const DataRequest& request,
                                      const OnProgress& progress = {});

}  // namespace oxrse::io

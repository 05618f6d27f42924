#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/config_field.h"
#include "engine/core/json.h"

namespace oxrse::io {

/// The section `data` of a config.
struct DataConfig {
  Json train = "";  // a SOURCE or a list of {source, weight}
  std::optional<std::string> validation;
  double validation_fraction = 0;
  std::optional<std::string> tokenizer;
  std::optional<std::int64_t> bpe_vocab;
  std::string order = "shuffled";
  std::string packing = "stream";
  std::string on_error = "error";
  std::optional<std::string> cache;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.train, Field{.key = "train",
                            .meaning = "what to train on: a UTF-8 text file, a .jsonl file, token shards, or a directory of them; "
                                       "or a list of {\"source\", \"weight\"}"});
    visit(self.validation,
          Field{.key = "validation", .meaning = "what to evaluate on, a SOURCE as for `train`; null: see validation_fraction"});
    visit(
        self.validation_fraction,
        Field{.key = "validation_fraction",
              .meaning = "with no `validation`: the last part of every training file that is kept for evaluation instead; 0: no evaluation",
              .min = 0,
              .max = 0.5});
    visit(self.tokenizer,
          Field{.key = "tokenizer", .meaning = "\"bytes\" or a tokenizer.json; null: one is trained (bpe_vocab); token shards need none"});
    visit(self.bpe_vocab, Field{.key = "bpe_vocab",
                                .meaning = "with no `tokenizer`: the size of the byte-level BPE vocabulary to train on the training text",
                                .unit = "tokens",
                                .min = 257,
                                .max = 1 << 20});
    visit(self.order, Field{.key = "order",
                            .meaning = "of the samples: a new permutation every epoch, or as they are in the data",
                            .choices = {"shuffled", "sequential"}});
    visit(self.packing, Field{.key = "packing",
                              .meaning = "stream: rows are cut from the running text; documents: attention and loss stay inside a document",
                              .choices = {"stream", "documents"}});
    visit(self.on_error,
          Field{.key = "on_error",
                .meaning = "what becomes of a file or a line of JSONL that is no valid text: end the run, or leave it out and say so",
                .choices = {"error", "skip"}});
    visit(self.cache, Field{.key = "cache", .meaning = "directory for tokenised text; null: $XDG_CACHE_HOME/oxrse or ~/.cache/oxrse"});
  }
};

}  // namespace oxrse::io

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "io/data/inspect.h"
#include "io/data/source.h"
#include "io/data/tokenise.h"
#include "io/data/train_tokenizer.h"
#include "io/files.h"
#include "tools/commands.h"
#include "tools/option_checks.h"

namespace oxrse::tools {
namespace {

/// One line on a terminal that is written over; nothing elsewhere.
void show_progress(const io::Progress& progress) {
  if (isatty(STDERR_FILENO) == 0 || progress.total == 0) return;
  const double percent = 100.0 * static_cast<double>(progress.done) / static_cast<double>(progress.total);
  fmt::print(stderr, "\r{}: {:.0f}% of {} {}\x1b[K{}", progress.what, percent, progress.total, progress.unit,
             progress.done == progress.total ? "\n" : "");
}

std::vector<std::filesystem::path> text_files(const std::vector<std::string>& sources) {
  std::vector<std::filesystem::path> files;
  for (const std::string& name : sources) {
    const io::Source source = io::find_source(name);
    require(source.kind == io::Source::Kind::Text, "{} holds tokens already; this needs text or JSONL", name);
    files.insert(files.end(), source.files.begin(), source.files.end());
  }
  return files;
}

struct TokenizerOptions {
  std::vector<std::string> sources;
  std::int64_t vocab = 0;
  std::string out;
};

void train_tokenizer(const TokenizerOptions& options) {
  require(!std::filesystem::exists(options.out), "{} exists; give another --out or remove it", options.out);
  const auto tokenizer = io::train_tokenizer(text_files(options.sources), options.vocab, show_progress);
  tokenizer->save(options.out);
  fmt::print("{}: {} tokens\n", options.out, tokenizer->vocab_size());
  if (tokenizer->vocab_size() < options.vocab) fmt::print("The text gives no more: every other pair of tokens occurs only once.\n");
}

struct PrepareOptions {
  std::vector<std::string> sources;
  std::string tokenizer, out;
};

void prepare(const PrepareOptions& options) {
  namespace fs = std::filesystem;
  require(!fs::exists(options.out) || (fs::is_directory(options.out) && fs::is_empty(options.out)),
          "{} exists and is not an empty directory; give another --out or remove it", options.out);
  const auto files = text_files(options.sources);
  const auto tokenizer = io::load_tokenizer(options.tokenizer);
  io::TokeniseSummary summary;
  io::make_directory_atomically(options.out,
                                [&](const fs::path& directory) { summary = io::tokenise(files, *tokenizer, directory, show_progress); });
  fmt::print("{}: {} tokens in {} documents, from {} bytes of text ({:.2f} bytes a token)\n", options.out, summary.tokens,
             summary.documents, summary.bytes, static_cast<double>(summary.bytes) / static_cast<double>(summary.tokens));
  if (summary.empty_documents > 0) fmt::print("{} empty documents were left out.\n", summary.empty_documents);
}

void add_tokenizer_command(CLI::App& data) {
  CLI::App* command = data.add_subcommand("tokenizer", "Train a byte-level BPE and write it as a tokenizer.json");
  auto options = std::make_shared<TokenizerOptions>();
  command->add_option("sources", options->sources, "Text files, .jsonl files or directories of them")->required();
  command->add_option("--vocab", options->vocab, "Tokens of the vocabulary")->required()->check(between<std::int64_t>(257, 1 << 24));
  command->add_option("--out", options->out, "The file to write")->required();
  command->callback([options] { train_tokenizer(*options); });
}

void add_prepare_command(CLI::App& data) {
  CLI::App* command = data.add_subcommand("prepare", "Turn text into a directory of token shards");
  auto options = std::make_shared<PrepareOptions>();
  command->add_option("sources", options->sources, "Text files, .jsonl files or directories of them")->required();
  command->add_option("--tokenizer", options->tokenizer, "\"bytes\", a tokenizer.json or a directory with one")->required();
  command->add_option("--out", options->out, "The directory to write")->required();
  command->callback([options] { prepare(*options); });
}

void add_inspect_command(CLI::App& data) {
  CLI::App* command = data.add_subcommand("inspect", "Say what text or token shards hold");
  auto path = std::make_shared<std::string>();
  command->add_option("path", *path, "A file or directory")->required();
  command->callback([path] { fmt::print("{}", io::inspect_source(io::find_source(*path))); });
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Train tokenizers, turn text into token shards, look at data");
  data->require_subcommand(1);
  add_tokenizer_command(*data);
  add_prepare_command(*data);
  add_inspect_command(*data);
}

}  // namespace oxrse::tools

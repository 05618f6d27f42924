#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "io/data/inspect.h"
#include "io/data/prepare.h"
#include "io/data/source.h"
#include "io/data/train_tokenizer.h"
#include "tools/commands.h"
#include "tools/option_checks.h"
#include "tools/progress_line.h"

namespace oxrse::tools {
namespace {

/// For the long jobs of this process, one after the other.
void show_progress(const io::Progress& progress) {
  static ProgressLine line;
  line.show(progress);
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

/// What was left out of the text, and why.
void print_left_out(const io::TextReport& report) {
  if (report.empty > 0) fmt::print("{} empty documents were left out.\n", report.empty);
  if (report.duplicates > 0) fmt::print("{} documents were left out because they are equal to an earlier one.\n", report.duplicates);
  if (report.invalid == 0) return;
  fmt::print("{} invalid files or lines were left out{}\n", report.invalid,
             static_cast<std::size_t>(report.invalid) > report.reasons.size() ? "; the first:" : ":");
  for (const std::string& reason : report.reasons) fmt::print("  {}\n", reason);
}

/// The option that every reader of text has.
void add_on_error(CLI::App& command, bool& skip) {
  const auto parse = [&skip](const std::string& value) { skip = value == "skip"; };
  command
      .add_option_function<std::string>(
          "--on-error", parse,
          "What to do with a file or line of JSONL that is no valid text: error (stop) or skip (leave it out, "
          "count it, say what was wrong with the first ones)")
      ->check(CLI::IsMember({"error", "skip"}))
      ->default_str("error");
}

struct TokenizerOptions {
  std::vector<std::string> sources;
  std::int64_t vocab = 0;
  std::string out;
  io::TextOptions text;
};

void train_tokenizer(const TokenizerOptions& options) {
  require(!std::filesystem::exists(options.out), "{} exists already; give another --out or remove it", options.out);
  const auto tokenizer = io::train_tokenizer(text_files(options.sources), options.vocab, options.text, show_progress);
  tokenizer->save(options.out);
  fmt::print("{}: {} tokens\n", options.out, tokenizer->vocab_size());
  if (tokenizer->vocab_size() < options.vocab) fmt::print("The text gives no more: every other pair of tokens occurs only once.\n");
}

struct PrepareOptions {
  std::vector<std::string> sources;
  std::string tokenizer, out, normalise = "none", line_ends = "auto";
  double deduplicate_gib = 4;
  io::TokeniseOptions tokenise;
};

constexpr double kMostGib = 1 << 30;  // so that its bytes are an int64; NaN is not below it

io::TokeniseOptions tokenise_options(const PrepareOptions& options) {
  using LineEnds = io::TextOptions::LineEnds;
  io::TokeniseOptions result = options.tokenise;
  result.text.nfc = options.normalise == "nfc";
  result.text.line_ends = options.line_ends == "lf" ? LineEnds::Lf : options.line_ends == "keep" ? LineEnds::Keep : LineEnds::Auto;
  require(options.deduplicate_gib <= kMostGib, "--deduplicate-memory {}: expected a number of GiB up to {}", options.deduplicate_gib,
          kMostGib);
  result.text.deduplicate_bytes = static_cast<std::int64_t>(options.deduplicate_gib * static_cast<double>(1 << 30));
  return result;
}

void prepare(const PrepareOptions& options) {
  const auto files = text_files(options.sources);
  const auto tokenizer = io::load_tokenizer(options.tokenizer);
  const io::TokeniseSummary summary = io::prepare(files, *tokenizer, options.out, tokenise_options(options), show_progress);
  fmt::print("{}: {} tokens in {} documents, from {} bytes of text ({:.2f} bytes a token)\n", options.out, summary.tokens,
             summary.documents, summary.bytes, static_cast<double>(summary.bytes) / static_cast<double>(summary.tokens));
  print_left_out(summary.left_out);
}

void add_tokenizer_command(CLI::App& data) {
  CLI::App* command = data.add_subcommand("tokenizer", "Train a byte-level BPE and write it as a tokenizer.json");
  auto options = std::make_shared<TokenizerOptions>();
  command->add_option("sources", options->sources, "Text files, .jsonl files or directories of them")->required();
  command->add_option("--vocab", options->vocab, "Tokens of the vocabulary, 257 to 1048576")
      ->required()
      ->check(between<std::int64_t>(257, 1 << 20));
  command->add_option("--out", options->out, "The file to write")->required();
  add_on_error(*command, options->text.skip_invalid);
  command->callback([options] { train_tokenizer(*options); });
}

void add_prepare_command(CLI::App& data) {
  CLI::App* command = data.add_subcommand(
      "prepare", "Turn text into a directory of token shards. Killed at any moment, the same command goes on where it was");
  auto options = std::make_shared<PrepareOptions>();
  command->add_option("sources", options->sources, "Text files, .jsonl files or directories of them")->required();
  command->add_option("--tokenizer", options->tokenizer, "\"bytes\", a tokenizer.json or a directory with one")->required();
  command->add_option("--out", options->out, "The directory to write; OUT.unfinished until it is complete")->required();
  command->add_option("--shard-tokens", options->tokenise.tokens_per_shard, "Size of a shard in tokens; memory holds 4 bytes of each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--normalise", options->normalise, "nfc: Unicode's normalization form C; none: text as it is")
      ->check(CLI::IsMember({"none", "nfc"}))
      ->capture_default_str();
  command->add_option("--line-ends", options->line_ends, "lf: CR LF becomes LF; keep: as they are; auto: lf in text files, keep in JSONL")
      ->check(CLI::IsMember({"auto", "lf", "keep"}))
      ->capture_default_str();
  command->add_flag("--deduplicate", options->tokenise.text.deduplicate,
                    "Leave out documents that are equal to an earlier one (by a hash of 128 bits), and count them");
  command
      ->add_option("--deduplicate-memory", options->deduplicate_gib, "Memory for that at the most, in GiB; a document takes 22 to 43 bytes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_on_error(*command, options->tokenise.text.skip_invalid);
  command->callback([options] { prepare(*options); });
}

struct InspectOptions {
  std::string path;
  io::InspectRequest request;
};

void add_inspect_command(CLI::App& data) {
  CLI::App* command = data.add_subcommand("inspect", "Say what text or token shards hold: counts, lengths of documents, samples");
  auto options = std::make_shared<InspectOptions>();
  command->add_option("path", options->path, "A file or directory")->required();
  command
      ->add_option("--samples", options->request.samples,
                   "Documents of which the beginning is shown: the next ones to places that are evenly spread")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option(
      "--tokenizer", options->request.tokenizer,
      "What decodes tokens: \"bytes\", a tokenizer.json or a directory with one; default: the tokenizer.json beside the shards");
  command->callback([options] { fmt::print("{}", io::inspect_source(io::find_source(options->path), options->request)); });
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

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/json.h"
#include "engine/train/inference.h"
#include "engine/train/ranks.h"
#include "io/data/open.h"
#include "tools/commands.h"
#include "tools/option_checks.h"

namespace oxrse::tools {
namespace {

struct EvalOptions {
  std::string checkpoint;
  std::string data;
  std::int64_t batches = 0;
  bool json = false;
};

/// Bytes of the text that the valid targets of samples [0, samples) stand for.
double target_bytes(const io::Dataset& data, const io::Tokenizer& tokenizer, std::int64_t length, std::int64_t samples) {
  const auto T = static_cast<std::size_t>(length);
  std::vector<std::int32_t> inputs(T), targets(T), positions(T), starts(T);
  double bytes = 0;
  for (std::int64_t n = 0; n < samples; ++n) {
    data.read(n, {inputs, targets, positions, starts});
    for (const std::int32_t t : targets) {
      if (t >= 0 && t < tokenizer.vocab_size()) bytes += static_cast<double>(tokenizer.bytes_of(t).size());
    }
  }
  return bytes;
}

/// Names the weights that make a loss NaN (shown without its sign) or infinite.
void require_finite(double loss, const train::LoadedModel& model, const std::string& data) {
  if (std::isfinite(loss)) return;
  const std::vector<std::string> names = model.not_finite();
  const std::string reason = names.empty() ? "weights or activations are too large for precision.compute"
                                           : fmt::format("NaN or infinity in the weights {}", fmt::join(names, ", "));
  fail("{}: the loss on {} is {}: {}", model.checkpoint().directory().string(), data, std::abs(loss), reason);
}

void evaluate(const EvalOptions& options, train::Ranks& ranks) {
  constexpr std::int64_t kRows = 8;  // the same on any number of ranks, so that the sums are, too
  train::LoadedModel model(options.checkpoint, {.length = 0, .rows = kRows}, ranks.threads());
  std::unique_ptr<io::Dataset> data;
  ranks.first_alone([&] {  // what the first rank caches, the others read
    data =
        io::open_dataset(options.data, model.tokenizer(),
                         {.context = model.shape().length, .seed = 0, .vocab = model.config().vocab, .documents = model.shape().documents});
  });
  const std::int64_t all = data->samples_per_epoch();
  const std::int64_t samples = options.batches > 0 ? std::min(all, options.batches * kRows) : all;
  const train::Evaluation result = model.evaluate(*data, samples, ranks.communicator());
  require(result.valid_tokens > 0,
          "{}: no token of {} samples has a next one in its document, so there is no loss; evaluate on longer documents", options.data,
          samples);
  require_finite(result.loss, model, options.data);
  if (!ranks.first()) return;
  Json report = {{"loss", result.loss}, {"perplexity", std::exp(result.loss)}, {"tokens", result.valid_tokens}, {"samples", samples}};
  if (model.tokenizer() != nullptr) {
    const double bytes = target_bytes(*data, *model.tokenizer(), model.shape().length, samples);
    report["bits_per_byte"] = result.loss * static_cast<double>(result.valid_tokens) / std::log(2.0) / bytes;
  }
  if (options.json) {
    fmt::print("{}\n", report.dump());
    return;
  }
  fmt::print("data           {}\n", data->describe());
  fmt::print("loss           {:.6f} nats a token over {} tokens\n", result.loss, result.valid_tokens);
  fmt::print("perplexity     {:.4f}\n", std::exp(result.loss));
  if (report.contains("bits_per_byte")) fmt::print("bits per byte  {:.4f}\n", report["bits_per_byte"].get<double>());
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Loss, perplexity and bits per byte of a model on a text or token shards");
  const auto options = std::make_shared<EvalOptions>();
  command->add_option("CHECKPOINT", options->checkpoint, "a run directory, its checkpoints directory or one step of it")
      ->check(not_empty("a checkpoint"))
      ->required();
  command->add_option("--data", options->data, "a text file, a .jsonl file, token shards or a directory of them")
      ->type_name("SOURCE")
      ->check(not_empty("text or token shards"))
      ->required();
  command->add_option("--batches", options->batches, "evaluate on the first batches of 8 samples only; 0: on everything")
      ->check(between<std::int64_t>(0, 1'000'000'000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options] {
    train::Ranks ranks;
    ranks.run([&] {
      ranks.connect(Json{{"checkpoint", options->checkpoint}, {"data", options->data}, {"batches", options->batches}});
      evaluate(*options, ranks);
    });
  });
}

}  // namespace oxrse::tools

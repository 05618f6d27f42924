#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/inference.h"
#include "tools/commands.h"
#include "tools/option_checks.h"

namespace oxrse::tools {
namespace {

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;
  std::int64_t tokens = 200;
  train::Sampling sampling;
};

/// "12 7 301" for a model without a tokenizer.
std::vector<std::int32_t> parse_ids(const std::string& text, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    require(error == std::errc() && id >= 0 && id < vocab,
            "--prompt \"{}\": this model has no tokenizer, so the prompt is token ids from 0 to {}, separated by spaces", text, vocab - 1);
    ids.push_back(id);
    at = next;
  }
  return ids;
}

std::vector<std::int32_t> encode_prompt(const train::LoadedModel& model, const std::string& prompt) {
  if (model.tokenizer() == nullptr) return parse_ids(prompt, model.config().vocab);
  std::vector<std::int32_t> ids = model.tokenizer()->encode(prompt);
  if (ids.empty() && model.tokenizer()->end_of_text()) ids.push_back(*model.tokenizer()->end_of_text());
  return ids;
}

void generate(const GenerateOptions& options) {
  options.sampling.validate();
  train::LoadedModel model(options.checkpoint, {});
  const std::vector<std::int32_t> prompt = encode_prompt(model, options.prompt);
  const io::Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr) {
    model.generator().generate(prompt, options.tokens, options.sampling, [](std::int32_t token) {
      fmt::print("{} ", token);
      std::fflush(stdout);
      return true;
    });
    fmt::print("\n");
    return;
  }
  fmt::print("{}", options.prompt);
  io::StreamDecoder decoder(*tokenizer);
  train::Sampling sampling = options.sampling;
  sampling.vocab = tokenizer->vocab_size();
  model.generator().generate(prompt, options.tokens, sampling, [&](std::int32_t token) {
    if (token == tokenizer->end_of_text()) return false;
    fmt::print("{}", decoder.push(token));
    std::fflush(stdout);
    return true;
  });
  fmt::print("{}\n", decoder.finish());
}

}  // namespace

void add_generate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a trained model");
  const auto options = std::make_shared<GenerateOptions>();
  command->add_option("CHECKPOINT", options->checkpoint, "a run directory, its checkpoints directory or one step of it")
      ->check(not_empty("a checkpoint"))
      ->required();
  command->add_option("--prompt", options->prompt, "the text to continue (token ids for a model without a tokenizer)")->required();
  command->add_option("--tokens", options->tokens, "how many tokens to add")
      ->check(between<std::int64_t>(1, 1'000'000'000))
      ->capture_default_str();
  command->add_option("--temperature", options->sampling.temperature, "below 1: more likely tokens; 0: always the most likely")
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "draw from the k most likely tokens; 0: from all")
      ->check(between<std::int64_t>(0, INT32_MAX))
      ->capture_default_str();
  command->add_option("--top-p", options->sampling.top_p, "draw from the most likely tokens that reach this probability")
      ->capture_default_str();
  command->add_option("--seed", options->sampling.seed, "another seed draws other tokens")
      ->check(between<std::uint64_t>(0, UINT64_MAX))
      ->capture_default_str();
  command->callback([options] { generate(*options); });
}

}  // namespace oxrse::tools

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "comm/links.h"
#include "engine/train/advice.h"
#include "engine/train/inference.h"
#include "engine/train/plan.h"
#include "engine/train/trainer.h"
#include "io/checkpoint/checkpoint.h"
#include "io/tokenizer/tokenizer.h"
#include "tools/commands.h"
#include "tools/option_checks.h"

namespace oxrse::tools {
namespace {

struct ConfigOptions {
  std::string file;
  std::vector<std::string> sets;
  bool help_config = false;

  void add_to(CLI::App& command) {
    command.add_option("CONFIG", file, "the config, a JSON file")->type_name("CONFIG.json");
    command.add_option("--set", sets, "replace a value: --set train.steps=100 (strings in quotes: --set 'run.name=\"a\"')")
        ->type_name("KEY.PATH=JSON")
        ->allow_extra_args(false);  // one value each: the config may follow
    command.add_flag("--help-config", help_config, "list every key of the config and exit");
  }

  [[nodiscard]] JsonDocument read() const {
    require(!file.empty(), "no config given: name a JSON file (--help-config lists its keys)");
    JsonDocument document = read_json(file);
    for (const std::string& set : sets) apply_set(document, set);
    return document;
  }
};

/// The vocabulary without reading any data.
std::int64_t planned_vocabulary(const io::DataConfig& data) {
  if (data.tokenizer) return io::load_tokenizer(*data.tokenizer)->vocab_size();
  return data.bpe_vocab.value_or(0);
}

/// How often to save when failures come every `hours` on average.
void print_advice(const train::Config& config, const train::Plan& plan, double hours) {
  const auto recorded = train::recorded_cost(std::filesystem::path(config.directory()) / "metrics.jsonl");
  const train::SaveCost cost = recorded ? *recorded : train::estimated_cost(plan.saved_bytes);
  const auto bytes = static_cast<double>(plan.saved_bytes);
  fmt::print("checkpoints    {} each, training stands still for {:.3g} ms: {}/s ({})\n", train::format_bytes(bytes), cost.stall * 1e3,
             train::format_bytes(bytes / cost.stall),
             recorded ? "measured by this run" : "estimated: a copy in memory, with checkpoint.async");
  fmt::print("advice         {}\n", train::advise(cost, hours, config.checkpoint.every));
}

void print_plan(const JsonDocument& document, bool list_ops, double mtbf_hours) {
  train::Config config = train::load_config(document);
  if (config.model.is_null()) {
    config.model = train::model_of_checkpoint(io::Checkpoint::open_unverified(*config.run.init));
  }
  const nn::ModelConfig model = train::resolve_model(config, planned_vocabulary(config.data));
  // With parallel.data, of that many ranks.
  const int ranks = config.parallel.data.is_number() ? config.parallel.data.get<int>() : 1;
  check_ranks(config, ranks);
  const train::Plan plan = train::make_plan(config, model, parallel::Group::planned(ranks, bool(comm::find_link(config.run.device))));
  fmt::print("{}", train::describe(plan, config, list_ops));
  const double hours = mtbf_hours > 0 ? mtbf_hours : config.checkpoint.mtbf_h;
  if (hours > 0) print_advice(config, plan, hours);
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a model as a config says, or go on with a run that was stopped");
  const auto options = std::make_shared<ConfigOptions>();
  const auto resume = std::make_shared<std::string>("auto");
  const auto plan = std::make_shared<bool>(false);
  options->add_to(*command);
  command
      ->add_option("--resume", *resume,
                   "auto: go on where the run directory stands; never: only start anew; or a checkpoint of this run to go on from")
      ->type_name("auto|never|PATH")
      ->check(not_empty("auto, never or a checkpoint"))
      ->capture_default_str();
  command->add_flag("--plan", *plan, "print memory, FLOPs and ops of a step instead of training");
  command->callback([=] {
    if (options->help_config) {
      fmt::print("{}", train::help_text());
    } else if (*plan) {
      print_plan(options->read(), true, 0);
    } else {
      train::train([&] { return options->read(); }, *resume);
    }
  });
}

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Print what training takes: parameters, memory, FLOPs, ops; needs no data");
  const auto options = std::make_shared<ConfigOptions>();
  const auto brief = std::make_shared<bool>(false);
  options->add_to(*command);
  const auto mtbf = std::make_shared<double>(0);
  command->add_option("--mtbf", *mtbf, "advise how often to save when a failure comes every so many hours; default: checkpoint.mtbf_h")
      ->check(CLI::PositiveNumber)
      ->type_name("HOURS");
  command->add_flag("--brief", *brief, "leave out the list of ops");
  command->callback([=] {
    if (options->help_config) {
      fmt::print("{}", train::help_text());
    } else {
      print_plan(options->read(), !*brief, *mtbf);
    }
  });
}

}  // namespace oxrse::tools

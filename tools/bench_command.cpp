#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/checkpoint.h"
#include "benchmarks/checkpoint_training.h"
#include "benchmarks/data.h"
#include "benchmarks/kernels.h"
#include "benchmarks/train.h"
#include "cuda/kernels/table.h"
#include "cuda/resources.h"
#include "engine/core/devices.h"
#include "engine/train/machine.h"
#include "engine/train/ranks.h"
#include "io/data/source.h"
#include "tools/commands.h"
#include "tools/option_checks.h"

namespace oxrse::tools {
namespace {

struct BenchOptions {
  std::string device = "cpu";
  int threads = 0;
  std::string json, csv, compare;

  void add_to(CLI::App& command, const std::vector<std::string>& devices = {"cpu"}) {
    command.add_option("--device", device, "where to measure")->check(CLI::IsMember(devices))->capture_default_str();
    command.add_option("--threads", threads, "threads; 0: as many as training would use")->check(between(0, 4096));
    command.add_option("--json", json, "also write everything to this file")->check(writable_file())->type_name("FILE");
    command.add_option("--csv", csv, "also write the rows to this file")->check(writable_file())->type_name("FILE");
    command.add_option("--compare", compare, "print time ratios to an earlier --json file; what is slower beyond the noise is flagged")
        ->check(not_empty("a file"))
        ->type_name("FILE");
  }

  [[nodiscard]] Cpu cpu(int otherwise = train::cpu_threads()) const { return {.threads = threads > 0 ? threads : otherwise}; }
  /// Null: the CPU.
  [[nodiscard]] Cuda* cuda() const { return dynamic_cast<Cuda*>(find_device(device)); }

  /// Reads what to compare with, then measures the ceilings and prints what everything below is compared with.
  [[nodiscard]] bench::Report begin(const std::string& command, const Cpu& where) const {
    if (!compare.empty()) bench::check_report(read_json(compare));  // noticed before the work
    Cuda* const gpu = cuda();
    bench::Report report{.command = command,
                         .device = device,
                         .machine = gpu == nullptr ? bench::machine_name(where) : gpu->description(),
                         .ceilings = {},
                         .rows = {}};
    fmt::print("machine     {}\n", report.machine);
    if (gpu != nullptr && !gpu->has_clock()) {
      fmt::print("times       none: an emulation shows results, not speed; registers and local memory are those of {}\n\n",
                 cuda::resources_origin());
    } else {
      report.ceilings = gpu == nullptr ? bench::measure_ceilings(where) : bench::measure_ceilings(*gpu);
      fmt::print("ceilings    {}\n\n", report.ceilings.describe());
    }
    std::fflush(stdout);
    return report;
  }

  /// `part`: some rows were left out on request.
  void finish(const bench::Report& report, bool part = false) const {
    const Json now = bench::to_json(report);
    if (!json.empty()) write(json, now.dump(1) + "\n");
    if (!csv.empty()) write(csv, bench::to_csv(report));
    if (!compare.empty()) fmt::print("\n{}", bench::compare(read_json(compare).value, now, part).text);
  }

  static void write(const std::string& file, const std::string& text) {
    std::ofstream out(file);
    out << text << std::flush;
    require(out.good(), "{}: cannot be written", file);
  }
};

DType type_named(const std::string& name) {
  for (const DType type : {DType::BF16, DType::F16, DType::F32, DType::F64}) {
    if (name_of(type) == name) return type;
  }
  fail("--dtype {}: expected bf16, f16, f32 or f64", name);
}

/// For models that leave their vocabulary to a tokenizer.
CLI::Option* add_vocabulary(CLI::App& command, std::int64_t& vocabulary) {
  return command
      .add_option("--vocab", vocabulary, "tokens of a model that leaves its vocabulary to the tokenizer; the default is the quick start's")
      ->check(between<std::int64_t>(1, 1 << 24))
      ->capture_default_str();
}

/// Gives the config's model the vocabulary if it has none.
void fill_vocabulary(train::Config& config, std::int64_t vocabulary) {
  if (config.model.value("vocab", std::int64_t{0}) == 0) config.model["vocab"] = vocabulary;
}

std::vector<bench::Case> gemm_cases(const bench::CaseSizes& sizes, const Cuda* /*device*/) { return bench::gemm_cases(sizes); }

/// With the ladders of the device, where there is one.
std::vector<bench::Case> kernel_cases(const bench::CaseSizes& sizes, const Cuda* device) {
  std::vector<bench::Case> cases = bench::kernel_cases(sizes);
  if (device != nullptr) std::ranges::move(bench::ladder_cases(sizes, *device->kernels->ladders), std::back_inserter(cases));
  return cases;
}

void add_cases(CLI::App& bench, const std::string& name, const std::string& meaning,
               std::vector<bench::Case> (*cases)(const bench::CaseSizes&, const Cuda*)) {
  struct Options : BenchOptions {
    std::vector<std::string> types = {"bf16", "f32"};
    std::string filter;
    bool hot = false, no_check = false, large = false;
    double seconds = 0.5;
  };
  CLI::App* command = bench.add_subcommand(name, meaning);
  const auto options = std::make_shared<Options>();
  options->add_to(*command, {"cpu", "cuda", "cuda-emulated"});
  command->add_option("--dtype", options->types, "types: bf16, f16, f32, f64")->delimiter(',')->capture_default_str();
  command->add_option("--filter", options->filter, "only rows whose \"kernel variant dtype shape\" this expression is found in")
      ->check(regular_expression())
      ->type_name("REGEX");
  command->add_flag("--hot", options->hot, "leave operands in the cache instead of rotating over more than fit");
  command->add_flag("--no-check", options->no_check, "do not compare with f64");
  command->add_flag("--large", options->large, "sizes for a GPU, which are not compared with f64: that would take hours on a processor");
  command->add_option("--seconds", options->seconds, "the most to spend on a row when timings do not settle")
      ->check(between(0.001, 3600.0))
      ->capture_default_str();
  command->callback([=] {
    bench::KernelOptions kernels{
        .types = {}, .filter = options->filter, .cold = !options->hot, .check = !options->no_check && !options->large};
    for (const std::string& type : options->types) kernels.types.push_back(type_named(type));
    kernels.patience.seconds = options->seconds;
    kernels.device = options->cuda();
    require(kernels.device == nullptr || std::ranges::count(kernels.types, DType::F64) == 0,
            "--dtype f64 is for the CPU: kernels of \"{}\" compute in bf16, f16 and f32", options->device);
    const bool emulated = kernels.device != nullptr && !kernels.device->has_clock();
    const bench::CaseSizes sizes = emulated ? bench::CaseSizes::few() : options->large ? bench::CaseSizes::many() : bench::CaseSizes();
    const std::vector<bench::Case> all = cases(sizes, kernels.device);
    require(bench::count_matches(all, kernels) > 0, "--filter {}: no kernel matches", options->filter);
    bench::Report report = options->begin(name, options->cpu());
    const bool with_kernels = kernels.device != nullptr;
    fmt::print("{}", bench::table_heading(with_kernels));
    bench::run_cases(all, kernels, options->cpu(), report, [&](const bench::Row& row) {
      fmt::print("{}", bench::table_line(row, with_kernels));
      std::fflush(stdout);
    });
    options->finish(report, !options->filter.empty() || command->count("--dtype") > 0);
  });
}

struct TrainOptions : BenchOptions {
  std::string config, model = "gpt2/124m", dtype = "bf16";
  std::int64_t batch = 4, context = 256, micro_batches = 1, steps = 6, vocabulary = 1024;

  /// The config of the step for so many ranks.
  [[nodiscard]] train::Config load(int ranks) const {
    JsonDocument document{.source = "bench train", .value = Json::object(), .lines = {}};
    if (config.empty()) {
      document.value["model"] = model;
      document.value["train"] = {{"micro_batch", batch}, {"global_batch", batch * micro_batches * ranks}, {"context", context}};
      document.value["precision"] = {{"compute", dtype}};
    } else {
      document = read_json(config);
    }
    document.value["run"]["device"] = device;
    train::Config loaded = train::load_config(document);
    if (config.empty()) fill_vocabulary(loaded, vocabulary);
    loaded.train.eval_every = loaded.train.sample_every = 0;
    return loaded;
  }
};

/// On all ranks; the first has the result.
void measure_train(const TrainOptions& options, train::Ranks& ranks) {
  const train::Config config = options.load(ranks.size());
  ranks.connect(config);
  const Cpu cpu = options.cpu(ranks.threads());
  Cuda* const gpu = options.cuda();
  const train::Plan plan = bench::plan_train(config, gpu, ranks.communicator());
  bench::Report report = options.begin("train", cpu);
  const bench::TrainResult result = bench::run_train(config, plan, options.steps, cpu, report, gpu, ranks.communicator());
  if (!ranks.first()) return;
  report.summary = bench::to_json(result);
  fmt::print("{}", bench::describe(result, report));
  options.finish(report);
}

void add_train(CLI::App& bench) {
  CLI::App* command =
      bench.add_subcommand("train", "Whole training steps on random tokens: tokens/s, efficiency, time of every op; of ranks under mpirun");
  const auto options = std::make_shared<TrainOptions>();
  options->add_to(*command, {"cpu", "cuda"});
  const auto* file = command->add_option("CONFIG", options->config, "measure a step of this config instead")->type_name("CONFIG.json");
  const auto shape = [&](const std::string& name, auto& value, const std::string& meaning) {
    return command->add_option(name, value, meaning)->capture_default_str()->excludes(command->get_option("CONFIG"));
  };
  const auto size = [&](const std::string& name, std::int64_t& value, const std::string& meaning) {
    shape(name, value, meaning)->check(between<std::int64_t>(1, 1 << 20));
  };
  static_cast<void>(file);
  shape("--model", options->model, "an entry of model_zoo/models");
  size("--batch", options->batch, "samples of a micro-batch (train.micro_batch)");
  size("--context", options->context, "tokens of a sample (train.context)");
  size("--micro-batches", options->micro_batches, "micro-batches of a step, of each rank");
  shape("--dtype", options->dtype, "compute type: bf16, fp16, f32 or f64");
  add_vocabulary(*command, options->vocabulary)->excludes(command->get_option("CONFIG"));
  command->add_option("--steps", options->steps, "steps to measure")->check(between<std::int64_t>(1, 1'000'000))->capture_default_str();
  command->callback([=] {
    train::Ranks ranks;
    ranks.run([&] { measure_train(*options, ranks); });
  });
}

/// What `bench checkpoint` saves and trains.
train::Config config_to_save(const std::string& model, std::int64_t vocabulary, std::int64_t every) {
  const JsonDocument document{.source = "bench checkpoint",
                              .value = {{"model", model},
                                        {"train", {{"context", 1}, {"micro_batch", 4}, {"global_batch", 4}, {"eval_every", 0}}},
                                        {"precision", {{"compute", "bf16"}}},
                                        {"checkpoint", {{"every", every}, {"keep", 1}}}},
                              .lines = {}};
  train::Config config = train::load_config(document);
  fill_vocabulary(config, vocabulary);
  config.train.context = std::min<std::int64_t>(256, train::resolve_model(config, 0).context);
  return config;
}

void add_checkpoint(CLI::App& bench) {
  struct Options {
    std::string model = "gpt2/124m", directory = ".", json;
    std::int64_t rounds = 5, vocabulary = 1024, every = 0;
  };
  CLI::App* command = bench.add_subcommand("checkpoint", "Saving and loading a state, beside plain writes, reads and copies of its bytes");
  const auto options = std::make_shared<Options>();
  command->add_option("--model", options->model, "an entry of model_zoo/models")->capture_default_str();
  add_vocabulary(*command, options->vocabulary);
  command->add_option("--dir", options->directory, "where to write; its disk is what is measured")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "how often everything is done")
      ->check(between<std::int64_t>(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--every", options->every,
                   "also train, 4 samples of at most 256 tokens a step in bf16, with a save every so many steps and without any; 0: do not")
      ->check(between<std::int64_t>(0, 1'000'000))
      ->capture_default_str();
  command->add_option("--json", options->json, "also write the result to this file")->check(writable_file())->type_name("FILE");
  command->callback([=] {
    train::Config config = config_to_save(options->model, options->vocabulary, options->every);
    const bench::CheckpointResult result =
        bench::run_checkpoint(train::resolve_model(config, 0), options->directory, options->rounds, train::cpu_threads());
    fmt::print("{}", bench::describe(result));
    std::fflush(stdout);
    Json json = bench::to_json(result);
    if (options->every > 0) {
      const bench::SavingResult saving = bench::run_saving(config, options->directory, options->rounds, {.threads = train::cpu_threads()});
      fmt::print("{}", bench::describe(saving, result.copy));
      json["training"] = bench::to_json(saving);
    }
    if (!options->json.empty()) BenchOptions::write(options->json, json.dump(1) + "\n");
  });
}

void add_data(CLI::App& bench) {
  struct Options {
    std::string text, directory = ".", json;
    std::int64_t vocab = 32768, turns = 3, encode_mb = 20;
  };
  CLI::App* command = bench.add_subcommand("data", "Training a BPE on a text of yours, encoding it and making token shards of it");
  const auto options = std::make_shared<Options>();
  command->add_option("TEXT", options->text, "a text file, a .jsonl file or a directory of them: large and varied, unlike a book repeated")
      ->check(not_empty("a text"))
      ->required();
  command->add_option("--vocab", options->vocab, "tokens of the vocabulary")
      ->check(between<std::int64_t>(257, 1 << 20))
      ->capture_default_str();
  command->add_option("--encode-mb", options->encode_mb, "MB of the text to encode on one thread")
      ->check(between<std::int64_t>(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--turns", options->turns, "how often everything is done")
      ->check(between<std::int64_t>(1, 1000))
      ->capture_default_str();
  command->add_option("--dir", options->directory, "where token shards are written")->check(CLI::ExistingDirectory)->capture_default_str();
  command->add_option("--json", options->json, "also write the result to this file")->check(writable_file())->type_name("FILE");
  command->callback([=] {
    const io::Source source = io::find_source(options->text);
    require(source.kind == io::Source::Kind::Text, "{} holds tokens already; this needs text or JSONL", options->text);
    const bench::DataResult result =
        bench::run_data(source.files, options->vocab, options->encode_mb * 1'000'000, options->directory, options->turns);
    fmt::print("{}", bench::describe(result));
    if (!options->json.empty()) BenchOptions::write(options->json, bench::to_json(result).dump(1) + "\n");
  });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure this machine, then kernels or training steps against it");
  command->require_subcommand(1);
  add_cases(*command, "gemm", "The matrix products of training steps", gemm_cases);
  add_cases(*command, "kernels", "Every other op of training steps; on GPUs also the kernels that lead to two of them (--filter ladder)",
            kernel_cases);
  add_train(*command);
  add_checkpoint(*command);
  add_data(*command);
  add_bench_collectives_command(*command);
}

}  // namespace oxrse::tools

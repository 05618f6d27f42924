#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/train/terminal.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/compare.h"
#include "io/checkpoint/memory_directory.h"
#include "io/checkpoint/prune.h"
#include "io/hf/export.h"
#include "io/hf/import.h"
#include "tools/commands.h"
#include "tools/option_checks.h"

namespace oxrse::tools {
namespace {

using train::warn;

std::string human_bytes(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Json table_as_json(const io::Checkpoint& checkpoint) {
  Json tensors = Json::array();
  for (const io::StoredTensor& t : checkpoint.tensors()) {
    tensors.push_back({{"name", t.name},
                       {"part", t.part},
                       {"dtype", name_of(t.dtype)},
                       {"shape", t.shape},
                       {"bytes", t.bytes()},
                       {"pieces", t.pieces.size()}});
  }
  Json files = Json::array();
  for (const io::StoredFile& f : checkpoint.manifest().files) files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"xxh3", f.xxh3}});
  return {{"directory", checkpoint.directory().string()},
          {"step", checkpoint.step()},
          {"world", checkpoint.manifest().world},
          {"files", files},
          {"tensors", tensors},
          {"config", checkpoint.config()}};
}

void print_table(const io::Checkpoint& checkpoint) {
  std::size_t widest = 0, widest_part = 0;
  std::int64_t bytes = 0;
  for (const io::StoredTensor& t : checkpoint.tensors()) {
    widest = std::max(widest, t.name.size());
    widest_part = std::max(widest_part, t.part.size());
    bytes += t.bytes();
  }
  const std::size_t files = checkpoint.manifest().files.size();
  fmt::print("{}: step {}, {} tensors, {} in {} {}\n", checkpoint.directory().string(), checkpoint.step(), checkpoint.tensors().size(),
             human_bytes(bytes), files, files == 1 ? "file" : "files");
  for (const io::StoredTensor& t : checkpoint.tensors()) {
    fmt::print("  {:<{}}  {:<{}}  {:<4}  {:>10}  {}\n", t.name, widest, t.part, widest_part, name_of(t.dtype), human_bytes(t.bytes()),
               io::describe_shape(t.shape));
  }
}

void inspect(const std::string& path, bool json) {
  const io::Checkpoint checkpoint = io::Checkpoint::open_unverified(path);
  if (json) {
    fmt::print("{}\n", table_as_json(checkpoint).dump(2));
  } else {
    print_table(checkpoint);
  }
}

void verify(const std::string& path) {
  std::size_t damaged = 0;
  const auto directories = io::step_directories_in(path);
  for (const std::filesystem::path& directory : directories) {
    const auto damage = io::damage_of(directory);
    for (const std::string& sentence : damage) fmt::print("{}\n", sentence);
    if (damage.empty()) fmt::print("{} is whole\n", directory.string());
    damaged += damage.empty() ? 0 : 1;
  }
  require(damaged == 0, "checkpoints that are damaged: {} of {}", damaged, directories.size());
}

/// A NaN has no sign for people.
std::string to_text(double value, int digits) { return std::isnan(value) ? "NaN" : fmt::format("{:.{}g}", value, digits); }

void diff(const std::string& path_a, const std::string& path_b) {
  const io::Checkpoint a = io::Checkpoint::open(path_a, warn), b = io::Checkpoint::open(path_b, warn);
  fmt::print("A: {}\nB: {}\n", a.directory().string(), b.directory().string());
  const auto differences = io::compare(a, b);
  for (const io::TensorDifference& d : differences) {
    if (!d.structure.empty()) {
      fmt::print("  {}: {}\n", d.label, d.structure);
    } else {
      fmt::print("  {}: {} of {} elements differ, by at most {}; |A - B| / |A| = {}\n", d.label, d.different, d.count,
                 to_text(d.largest, 6), to_text(d.relative, 3));
    }
  }
  const auto only_in_b = std::count_if(differences.begin(), differences.end(), [](const auto& d) { return d.structure == "only in B"; });
  fmt::print("{} of {} tensors differ\n", differences.size(), a.tensors().size() + static_cast<std::size_t>(only_in_b));
  for (const auto& [name, x, y] : {std::tuple("config", a.config(), b.config()), std::tuple("state", a.state(), b.state())}) {
    if (x != y) fmt::print("the {} differs\n", name);
  }
}

void add_inspect(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("inspect", "List the tensors of a checkpoint");
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("checkpoint", *path, "A step, checkpoints or run directory")->check(not_empty("a checkpoint"))->required();
  command->add_flag("--json", *json, "Print JSON, with the config");
  command->callback([path, json] { inspect(*path, *json); });
}

void add_verify(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("verify", "Read every byte of one or all checkpoints and compare the checksums");
  auto path = std::make_shared<std::string>();
  command->add_option("checkpoint", *path, "A step, checkpoints or run directory")->check(not_empty("a checkpoint"))->required();
  command->callback([path] { verify(*path); });
}

void prune(const std::string& path, std::int64_t keep, bool dry_run) {
  std::size_t removed = 0;
  const auto result = io::prune(path, keep, dry_run);
  for (const io::Pruned& entry : result) {
    for (const std::string& sentence : entry.damage) fmt::print("{}\n", sentence);
    fmt::print("{} {}\n", entry.directory.string(), entry.kept ? "is whole and kept" : dry_run ? "would be removed" : "removed");
    removed += entry.kept ? 0 : 1;
  }
  fmt::print("checkpoints that {} removed: {} of {}\n", dry_run ? "would be" : "were", removed, result.size());
}

void add_prune(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("prune", "Remove all but the newest whole checkpoints, after verifying these");
  auto path = std::make_shared<std::string>();
  auto keep = std::make_shared<std::int64_t>(1);
  auto dry_run = std::make_shared<bool>(false);
  command->add_option("checkpoint", *path, "A checkpoints or run directory")->check(not_empty("a checkpoint"))->required();
  command->add_option("--keep", *keep, "How many to keep")->check(between<std::int64_t>(1, std::int64_t{1} << 31))->required();
  command->add_flag("--dry-run", *dry_run, "Only say what would be removed");
  command->callback([path, keep, dry_run] { prune(*path, *keep, *dry_run); });
}

void add_diff(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("diff", "Compare two checkpoints tensor by tensor");
  auto a = std::make_shared<std::string>(), b = std::make_shared<std::string>();
  command->add_option("A", *a, "A step, checkpoints or run directory")->check(not_empty("a checkpoint"))->required();
  command->add_option("B", *b, "Another")->check(not_empty("a checkpoint"))->required();
  command->callback([a, b] { diff(*a, *b); });
}

void add_import(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("import", "Make a checkpoint from a Hugging Face directory");
  auto directory = std::make_shared<std::string>(), out = std::make_shared<std::string>();
  command->add_option("directory", *directory, "Has config.json and model.safetensors")
      ->check(not_empty("a Hugging Face directory"))
      ->required();
  command->add_option("--out", *out, "The directory to make")->check(not_empty("a directory to make"))->required();
  command->callback([directory, out] {
    io::import_hf(*directory, *out, warn);
    fmt::print("{}: ready for run.init, oxrse generate and oxrse eval\n", *out);
  });
}

struct ExportArguments {
  std::string checkpoint, out, dtype, family;
  std::int64_t shard_bytes = io::HfExport().shard_bytes;
};

void export_checkpoint(const ExportArguments& arguments) {
  io::HfExport options;
  options.family = arguments.family;
  options.shard_bytes = arguments.shard_bytes;
  if (!arguments.dtype.empty()) options.dtype = io::dtype_named(arguments.dtype);
  io::export_hf(io::Checkpoint::open(arguments.checkpoint, warn), arguments.out, options);
  const auto wrote = [&](const char* name) { return std::filesystem::exists(std::filesystem::path(arguments.out) / name); };
  fmt::print("{}: config.json, model.safetensors{}{}\n", arguments.out, wrote("model.safetensors") ? "" : " in several files with an index",
             wrote("tokenizer.json") ? ", tokenizer.json, tokenizer_config.json" : "");
}

void add_export(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("export", "Write a checkpoint as a Hugging Face directory");
  auto arguments = std::make_shared<ExportArguments>();
  command->add_option("checkpoint", arguments->checkpoint, "A step, checkpoints or run directory")
      ->check(not_empty("a checkpoint"))
      ->required();
  command->add_option("--out", arguments->out, "The directory to make")->check(not_empty("a directory to make"))->required();
  command->add_option("--dtype", arguments->dtype, "Type of the weights; default: as they are")
      ->check(CLI::IsMember({"f64", "f32", "bf16", "f16"}));
  command->add_option("--family", arguments->family, "llama, mistral, ...; default: the first that fits");
  command
      ->add_option("--max-shard", arguments->shard_bytes,
                   "Bytes of a weight file at the most (5GB, 500MB, 2GiB); more weights make several")
      ->transform(CLI::AsSizeValue(true))
      ->default_str("5GB");
  command->callback([arguments] { export_checkpoint(*arguments); });
}

/// For `oxrse train` with checkpoint.peer, not for people.
void add_hold(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("hold", "Frees the memory of a run's copies when nobody has come back for some hours");
  command->group("");
  auto directory = std::make_shared<std::string>();
  auto hours = std::make_shared<double>(24);
  command->add_option("directory", *directory, "In a file system in memory")->check(not_empty("a directory"))->required();
  command->add_option("--hours", *hours, "The time")->check(between(0.0, 1e6))->required();
  command->callback([directory, hours] { io::hold(*directory, *hours); });
}

}  // namespace

void add_checkpoint_command(CLI::App& app) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Look at checkpoints, verify and compare them, convert from and to Hugging Face");
  checkpoint->require_subcommand(1);
  add_inspect(*checkpoint);
  add_verify(*checkpoint);
  add_diff(*checkpoint);
  add_prune(*checkpoint);
  add_import(*checkpoint);
  add_export(*checkpoint);
  add_hold(*checkpoint);
}

}  // namespace oxrse::tools

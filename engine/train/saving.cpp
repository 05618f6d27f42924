#include "engine/train/saving.h"

#include <map>
#include <optional>
#include <utility>

#include "engine/core/build_info.h"
#include "io/checkpoint/share.h"
#include "io/convert.h"
#include "io/finite.h"

namespace oxrse::train {
namespace {

using NamedPart = std::pair<const char*, Tensor>;

/// The optimizer's tensors of a parameter under the names of their parts.
std::vector<NamedPart> parts_of(const optim::Optimizer::State& state) {
  std::vector<NamedPart> parts;
  if (state.exp_avg.present()) parts.emplace_back("exp_avg", state.exp_avg);
  if (state.exp_avg_sq.present()) parts.emplace_back("exp_avg_sq", state.exp_avg_sq);
  if (state.momentum.present()) parts.emplace_back("momentum", state.momentum);
  return parts;
}

const char* weight_part(const nn::Parameter& parameter) { return parameter.has_master_copy() ? "master" : "model"; }

/// Where the own elements of a parameter belong.
io::Placement place_of(const nn::Parameter& p) {
  return {p.sizes, p.owns_all() ? io::Region::whole(p.sizes) : io::Region::range(p.own.begin, p.own.end)};
}

/// Makes an entry of bf16 out of one of f32.
void store_rounded(io::CheckpointEntry& entry) {
  const ConstTensor whole = entry.tensor;
  entry.tensor = ConstTensor(whole.address(), DType::BF16, whole.sizes());
  entry.fill = [whole](const Tensor& out) { io::convert(out, whole); };
}

/// The number state.group.key of a checkpoint.
template <class T>
T number(const io::Checkpoint& checkpoint, const char* group, const char* key) {
  const Json& state = checkpoint.state();
  require(state.contains(group) && state.at(group).contains(key) && state.at(group).at(key).is_number(),
          "{}: the state has no {}.{}: this checkpoint holds weights only, give it as run.init", checkpoint.directory().string(), group,
          key);
  return state.at(group).at(key).get<T>();
}

std::string fingerprint_text(std::uint64_t fingerprint) { return fmt::format("{:016x}", fingerprint); }

void check_data(const io::Checkpoint& checkpoint, const io::Dataset& data) {
  const Json& sampler = checkpoint.state().value("sampler", Json::object());
  const std::string before = sampler.value("fingerprint", ""), now = fingerprint_text(data.fingerprint());
  require(before == now,
          "{}: the training data is not what this run began with (fingerprint {}, now {}): restore it, or begin a new run with run.init",
          checkpoint.directory().string(), before, now);
}

}  // namespace

void require_finite(std::span<const io::CheckpointEntry> entries) {
  for (const io::CheckpointEntry& entry : entries) {
    require(
        io::count_not_finite(entry.tensor) == 0,
        "{} ({}) holds NaN or infinity, so nothing is saved and the checkpoints from before stay: lower optimizer.lr or look at the data",
        entry.name, entry.part);
  }
}

std::vector<io::CheckpointEntry> checkpoint_entries(Training& training, const io::CheckpointConfig& config, bool weights_only) {
  std::vector<io::CheckpointEntry> entries;
  const auto& parameters = training.parameters().parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const nn::Parameter& p = parameters[i];
    if (p.own.count() == 0) continue;
    const std::optional<io::Placement> place = p.owns_all() ? std::nullopt : std::optional(place_of(p));
    entries.push_back({.name = p.name, .part = weight_part(p), .tensor = p.master, .placement = place});
    if (weights_only) continue;
    for (const auto& [part, tensor] : parts_of(training.optimizer().states()[i])) {
      entries.push_back({.name = p.name, .part = part, .tensor = tensor, .placement = place});
      if (config.moments == "bf16" && tensor.dtype() == DType::F32) store_rounded(entries.back());
    }
  }
  return entries;
}

std::vector<io::CheckpointEntry> entries_to_save(Training& training, const io::CheckpointConfig& config, bool weights_only) {
  const std::vector<io::CheckpointEntry> entries = checkpoint_entries(training, config, weights_only);
  const parallel::Group& group = training.group();
  if (group.size == 1 || training.shares_optimizer()) return entries;
  return io::share_of(entries, {group.rank, group.size});
}

Json checkpoint_state(Training& training, const Progress& progress, const Config& config, const io::Dataset* data) {
  Json state;
  state["counters"] = {{"step", progress.step},
                       {"skipped", progress.skipped},
                       {"skipped_in_a_row", progress.skipped_in_a_row},
                       {"tokens", progress.step * config.train.global_batch * config.train.context}};
  state["schedule"] = {{"updates", training.optimizer().updates()}};
  const optim::LossScaler::State& scaler = training.scaler().state();
  state["scaler"] = {{"scale", scaler.scale}, {"good_steps", scaler.good_steps}, {"hysteresis_left", scaler.hysteresis_left}};
  state["rng"] = {{"seed", config.run.seed}};  // all there is: random numbers are drawn by counter
  state["program"] = {{"version", build_info().version}, {"commit", build_info().commit}};
  if (data != nullptr) {
    const std::int64_t samples = progress.step * config.train.global_batch;
    state["sampler"] = {
        {"samples", samples}, {"epoch", samples / data->samples_per_epoch()}, {"fingerprint", fingerprint_text(data->fingerprint())}};
  }
  return state;
}

void load_weights(Context& context, nn::ParameterStore& store, const io::Checkpoint& checkpoint) {
  for (const nn::Parameter& p : store.parameters()) {
    if (p.own.count() == 0) continue;
    const char* part = checkpoint.has(p.name, "master") ? "master" : "model";
    checkpoint.read(p.name, part, place_of(p), p.master);
  }
  store.cast(context);
}

std::vector<bool> files_to_restore(Training& training, const io::Manifest& manifest) {
  std::vector<bool> needed(manifest.files.size(), false);
  needed.front() = true;  // has the small values
  std::map<std::pair<std::string_view, std::string_view>, const io::StoredTensor*> stored;
  for (const io::StoredTensor& tensor : manifest.tensors) stored[{tensor.name, tensor.part}] = &tensor;
  const auto need = [&](const nn::Parameter& p, std::string_view part) {
    const auto found = stored.find({p.name, part});
    if (found == stored.end() || found->second->shape != p.sizes) return;  // restore says so
    const io::Runs wanted(place_of(p).region, p.sizes);
    for (const io::Piece& piece : found->second->pieces) {
      if (io::common_elements(io::Runs(piece.region, p.sizes), wanted) > 0) needed[static_cast<std::size_t>(piece.file)] = true;
    }
  };
  const auto& parameters = training.parameters().parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].own.count() == 0) continue;
    need(parameters[i], "master");
    need(parameters[i], "model");
    for (const auto& [part, tensor] : parts_of(training.optimizer().states()[i])) need(parameters[i], part);
  }
  return needed;
}

Progress restore(Training& training, const io::Checkpoint& checkpoint, const io::Dataset* data) {
  if (data != nullptr) check_data(checkpoint, *data);
  const Progress progress{.step = number<std::int64_t>(checkpoint, "counters", "step"),
                          .skipped = number<std::int64_t>(checkpoint, "counters", "skipped"),
                          .skipped_in_a_row = number<std::int64_t>(checkpoint, "counters", "skipped_in_a_row")};
  const std::int64_t updates = number<std::int64_t>(checkpoint, "schedule", "updates");
  const optim::LossScaler::State scaler{.scale = number<double>(checkpoint, "scaler", "scale"),
                                        .good_steps = number<std::int64_t>(checkpoint, "scaler", "good_steps"),
                                        .hysteresis_left = number<std::int64_t>(checkpoint, "scaler", "hysteresis_left")};
  const auto& parameters = training.parameters().parameters();
  load_weights(training.context(), training.parameters(), checkpoint);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const auto& [part, tensor] : parts_of(training.optimizer().states()[i])) {
      checkpoint.read(parameters[i].name, part, place_of(parameters[i]), tensor);
    }
  }
  training.optimizer().set_updates(updates);
  training.optimizer().round_weights(training.context());
  training.scaler().restore(scaler);
  return progress;
}

}  // namespace oxrse::train

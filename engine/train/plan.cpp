#include "engine/train/plan.h"

#include <algorithm>

#include "engine/train/checkpointer.h"
#include "engine/train/machine.h"
#include "engine/train/sampling.h"
#include "engine/train/training.h"

namespace oxrse::train {
namespace {

constexpr std::array kKinds = {Memory::Weights, Memory::Gradients, Memory::Optimizer, Memory::Activations, Memory::Workspace};

/// FLOPs of forward and backward as the model defines them: what was executed, less what recomputation repeats.
double model_flops(Config config, const nn::ModelConfig& model, const parallel::Group& group) {
  config.train.recompute = "none";
  Arena arena = Arena::planned();
  OpLog ops;
  Context context{.mode = Mode::Plan, .cpu = {}, .arena = &arena, .log = nullptr};
  Training training(context, config, model, group);
  context.log = &ops;
  training.step(nullptr, 0);
  return ops.total().flops;
}

void require_fits_device(const Plan& plan, Device& device) {
  const std::int64_t available = device.available_bytes(), needed = plan.memory.total() + (plan.linked ? plan.communication_bytes : 0);
  require(needed <= available,
          "the plan needs {} and {} has {} available: lower train.micro_batch, set train.recompute to \"block\" or choose a smaller model",
          format_bytes(static_cast<double>(needed)), device.description(), format_bytes(static_cast<double>(available)));
}

/// What the process needs outside the arena: what it has now, and packing buffers of the matrix products.
std::int64_t process_bytes() {
  constexpr std::int64_t kLibraryScratch = std::int64_t{24} << 20;
  return std::max<std::int64_t>(resident_bytes(), 0) + kLibraryScratch;
}

}  // namespace

Plan make_plan(const Config& config, const nn::ModelConfig& model, const parallel::Group& group) {
  Plan plan;
  plan.model = model;
  Arena arena = Arena::planned();
  Context context{.mode = Mode::Plan, .cpu = {}, .arena = &arena, .log = nullptr};
  Training training(context, config, model, group);
  plan.ranks = group.size;
  plan.linked = group.linked;
  plan.communication_bytes = training.communication_bytes();
  plan.parameters = training.parameters().count();
  context.log = &plan.ops;
  training.step(nullptr, 0);
  context.log = nullptr;
  if (config.train.eval_every > 0) training.evaluate(nullptr, config.train.micro_batch);
  if (config.train.sample_every > 0) {
    const std::int32_t any = 0;
    Generator(context, training.parameters(), training.model()).generate({&any, 1}, 1, {}, {});
  }
  plan.memory = arena.peak();
  const auto saved = checkpoint_entries(training, config.checkpoint);
  std::int64_t own_bytes = 0, own = 0;
  for (const io::CheckpointEntry& entry : saved) own_bytes += entry.tensor.bytes();
  for (const nn::Parameter& p : training.parameters().parameters()) own += p.own.count();
  require(own > 0, "parallel.zero {} leaves this rank without a single one of {} parameters: start fewer ranks, or set parallel.zero to 0",
          config.parallel.zero, plan.parameters);
  plan.saved_bytes = own_bytes / own * plan.parameters;  // every element has as many
  const auto written = entries_to_save(training, config.checkpoint);
  for (const io::CheckpointEntry& entry : written) plan.own_bytes += entry.tensor.bytes();
  if (Checkpointer::copies(config)) plan.snapshot_bytes = io::Snapshot::bytes_for(written);
  // The last one stays until the next is whole; on several nodes there is as much of another rank.
  if (config.checkpoint.peer) plan.peer_bytes = 2 * plan.own_bytes * (group.size > 1 ? 2 : 1);
  plan.process_bytes = process_bytes();
  plan.tokens = static_cast<double>(config.train.global_batch * config.train.context);
  plan.model_flops = config.train.recompute == "none" ? plan.ops.total().flops : model_flops(config, model, group);
  return plan;
}

std::string format_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

std::string format_count(double count) {
  const char* units[] = {"", "K", "M", "B", "T", "P", "E", "Z"};
  std::size_t unit = 0;
  for (; count >= 1000 && unit + 1 < std::size(units); ++unit) count /= 1000;
  return fmt::format("{:.{}f}{}", count, unit == 0 ? 0 : 1, units[unit]);
}

std::string describe(const Plan& plan, const Config& config, bool list_ops) {
  const Cost total = plan.ops.total();
  std::string text = fmt::format("parameters     {} ({})\n", plan.parameters, format_count(static_cast<double>(plan.parameters)));
  text += fmt::format("step           {} tokens: {} micro-batches of {} samples of {} tokens\n", static_cast<std::int64_t>(plan.tokens),
                      config.micro_batches(), config.train.micro_batch, config.train.context);
  if (plan.ranks > 1) text += fmt::format("ranks          {}; what follows is of one of them\n", plan.ranks);
  text += fmt::format("compute        {} FLOP a step ({} a token){}\n", format_count(total.flops),
                      format_count(total.flops * plan.ranks / plan.tokens),
                      config.train.recompute == "none" ? "" : fmt::format(", {} without recomputation", format_count(plan.model_flops)));
  text += fmt::format("memory         {}\n", format_bytes(static_cast<double>(plan.total_bytes())));
  for (const Memory kind : kKinds) {
    text += fmt::format("  {:<13}{}\n", name_of(kind), format_bytes(static_cast<double>(plan.memory[kind])));
  }
  text += fmt::format("  {:<13}{}\n", "snapshot", format_bytes(static_cast<double>(plan.snapshot_bytes)));
  if (plan.ranks > 1) {
    text += fmt::format("  {:<13}{}\n", "comm scratch", format_bytes(static_cast<double>(plan.communication_bytes)));
  }
  if (plan.peer_bytes > 0) text += fmt::format("  {:<13}{}\n", "peer copies", format_bytes(static_cast<double>(plan.peer_bytes)));
  text += fmt::format("  {:<13}{}\n", "process", format_bytes(static_cast<double>(plan.process_bytes)));
  if (!list_ops) return text;
  text += fmt::format("\n{:<24} {:<44} {:>7} {:>12} {:>12}\n", "op", "shape", "calls", "FLOP", "bytes");
  for (const OpLog::Entry& e : plan.ops.entries()) {
    text += fmt::format("{:<24} {:<44} {:>7} {:>12} {:>12}\n", e.name, e.shape, e.calls, format_count(e.cost.flops),
                        format_bytes(e.cost.bytes));
  }
  text += fmt::format("{:<24} {:<44} {:>7} {:>12} {:>12}\n", "all", "", "", format_count(total.flops), format_bytes(total.bytes));
  return text;
}

void require_fits(const Plan& plan, const Config& config, Device* device) {
  if (device != nullptr) {
    const std::int64_t width = plan.model.head_width;
    require(width <= device->widest_heads(), "heads are {} wide, and run.device \"{}\" takes up to {}: take more heads, or the CPU", width,
            config.run.device, device->widest_heads());
  }
  const bool elsewhere = device != nullptr && device->available_bytes() >= 0;
  if (elsewhere) require_fits_device(plan, *device);
  const std::int64_t available = available_bytes();
  const std::int64_t tensors = elsewhere ? 0 : plan.memory.total();
  const std::int64_t needed = tensors + plan.snapshot_bytes + plan.peer_bytes + (plan.linked ? 0 : plan.communication_bytes);
  if (available < 0 || needed <= available) return;
  const std::int64_t activations = plan.memory[Memory::Activations] + plan.memory[Memory::Workspace];
  std::string advice = "choose a smaller model";
  if (tensors <= available) {
    advice = fmt::format("set {} to false: training then needs no copies of what checkpoints hold",
                         plan.peer_bytes > 0 ? "checkpoint.peer" : "checkpoint.async");
  } else if (config.train.micro_batch > 1 && activations * 4 > plan.memory.total()) {
    advice = fmt::format("lower train.micro_batch (now {})", config.train.micro_batch);
  } else if (config.train.recompute != "block" && activations * 4 > plan.memory.total()) {
    advice = "set train.recompute to \"block\" or lower train.context";
  } else if (config.comm.deterministic && config.micro_batches() > 1) {
    advice = "raise train.micro_batch, set comm.deterministic to false (fewer gradient buffers) or choose a smaller model";
  }
  fail("the plan needs {} and this machine has {} available: {}\n\n{}", format_bytes(static_cast<double>(needed)),
       format_bytes(static_cast<double>(available)), advice, describe(plan, config, false));
}

}  // namespace oxrse::train

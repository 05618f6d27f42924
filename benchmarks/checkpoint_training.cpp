#include "benchmarks/checkpoint_training.h"

#include <chrono>
#include <vector>

#include "benchmarks/random_tokens.h"
#include "benchmarks/samples.h"
#include "engine/train/checkpointer.h"
#include "engine/train/plan.h"
#include "io/files.h"

namespace oxrse::bench {
namespace {

/// A training that can be timed round by round.
class SavedTraining {
 public:
  SavedTraining(const train::Config& config, const train::Plan& plan, const std::filesystem::path& directory, const Cpu& cpu)
      : arena_(Arena::allocated(plan.memory.total())),
        context_{.mode = Mode::Run, .cpu = cpu, .arena = &arena_, .log = nullptr},
        training_(context_, config, plan.model),
        data_(plan.model.vocab),
        every_(config.checkpoint.every),
        checkpointer_(training_, config, {.files = directory}, "", &data_, [](const std::string&) {}) {
    training_.initialize();
  }

  void warm_up() {
    for (int i = 0; i < 2; ++i) training_.step(&data_, progress_.step++);
  }
  /// Seconds of as many steps as lie between two saves, and of one save if there is one: what is not on the disk by then is waited for.
  double round(bool saves) {
    const auto begin = std::chrono::steady_clock::now();
    const train::Progress saved = progress_;
    if (saves) checkpointer_.save(saved);
    for (std::int64_t i = 0; i < every_; ++i) {
      training_.step(&data_, progress_.step++);
      checkpointer_.collect();
    }
    if (saves) checkpointer_.finish(saved);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  [[nodiscard]] const train::SaveTotals& totals() const { return checkpointer_.totals(); }

 private:
  Arena arena_;
  Context context_;
  train::Training training_;
  RandomTokens data_;
  std::int64_t every_;
  train::Progress progress_;
  train::Checkpointer checkpointer_;
};

}  // namespace

SavingResult run_saving(const train::Config& config, const std::filesystem::path& directory, std::int64_t rounds, const Cpu& cpu) {
  const train::Plan plan = train::make_plan(config, train::resolve_model(config, 0));
  train::require_fits(plan, config);
  const std::filesystem::path scratch = io::temporary_name(directory / "oxrse-bench-checkpoint");
  SavingResult result{.every = config.checkpoint.every, .rounds = rounds};
  {
    SavedTraining training(config, plan, scratch, cpu);
    training.warm_up();
    std::vector<double> with, without, speeds;
    for (std::int64_t i = 0; i < rounds; ++i) {
      for (const bool saves : {i % 2 == 0, i % 2 != 0}) (saves ? with : without).push_back(training.round(saves));
      speeds.push_back(without.back() / with.back());
    }
    const auto steps = static_cast<double>(result.every);
    result.step = summarize(without).median / steps;
    result.step_saving = summarize(with).median / steps;
    result.speed = summarize(speeds).median;
    result.stall = training.totals().stall_ms / 1e3 / static_cast<double>(rounds);
    result.save = training.totals().write_ms / 1e3 / static_cast<double>(rounds);
  }
  std::filesystem::remove_all(scratch);
  return result;
}

std::string describe(const SavingResult& r, double copy) {
  return fmt::format(
      "training    {:>8.1f} ms a step, {:.1f} ms with a checkpoint every {} steps: {:.1f}% of the throughput, {} pairs of rounds, median; "
      "it stood "
      "still for {:.0f} ms, {:.2f} times a memcpy, of the {:.0f} ms of a save\n",
      r.step * 1e3, r.step_saving * 1e3, r.every, 100 * r.speed, r.rounds, r.stall * 1e3, r.stall / copy, r.save * 1e3);
}

Json to_json(const SavingResult& r) {
  return {{"every", r.every},      {"rounds", r.rounds}, {"step_s", r.step}, {"step_with_saves_s", r.step_saving},
          {"throughput", r.speed}, {"stall_s", r.stall}, {"save_s", r.save}};
}

}  // namespace oxrse::bench

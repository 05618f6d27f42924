#include "benchmarks/train.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <utility>

#include "benchmarks/random_tokens.h"
#include "benchmarks/step_products.h"
#include "engine/train/machine.h"
#include "engine/train/training.h"

namespace oxrse::bench {
namespace {

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// The seconds of every op of the step in each of the measured steps.
class OpTimes {
 public:
  void add(const OpLog& log) {
    entries_ = log.entries();
    for (std::size_t i = 0; i < entries_.size(); ++i) seconds_[i].push_back(entries_[i].seconds);
  }

  void add_rows(DType type, Report& report) const {
    for (const auto& [i, seconds] : seconds_) {
      const OpLog::Entry& e = entries_[i];
      Row row{.kernel = std::string(e.name),
              .variant = fmt::format("x{}", e.calls),
              .dtype = type,
              .shape = e.shape,
              .mode = "step",
              .time = summarize(seconds),
              .cost = e.cost};
      row.floor = report.ceilings.floor_seconds(row.cost, type, true);
      row.bound = report.ceilings.binding(row.cost, type, true);
      report.rows.push_back(row);
    }
    std::sort(report.rows.begin(), report.rows.end(), [](const Row& a, const Row& b) { return a.time.median > b.time.median; });
  }

  [[nodiscard]] const std::vector<OpLog::Entry>& entries() const { return entries_; }

 private:
  std::vector<OpLog::Entry> entries_;
  std::map<std::size_t, std::vector<double>> seconds_;
};

}  // namespace

double TrainResult::utilisation(const Ceilings& ceilings) const {
  const double most = ceilings.gemm(dtype) * step.median;
  return most > 0 ? model_flops / most : 0;
}

train::Plan plan_train(train::Config config, Device* device, comm::Communicator* ranks) {
  require(!config.model.is_null(), "a benchmark needs the key model of its config; weights of run.init are not read");
  config.checkpoint.async = false;  // nothing is saved, so no copies are kept
  train::Plan plan = train::make_plan(config, train::resolve_model(config, config.data.bpe_vocab.value_or(0)), ranks);
  train::require_fits(plan, config, device);
  return plan;
}

TrainResult run_train(const train::Config& config, const train::Plan& plan, std::int64_t steps, const Cpu& cpu, Report& report,
                      Cuda* device, comm::Communicator* ranks) {
  constexpr std::int64_t kWarmUp = 2;
  TrainResult result;
  result.ranks = plan.ranks;
  result.dtype = config.compute_type();
  result.tokens = static_cast<double>(config.train.global_batch * config.train.context);
  result.planned_bytes = plan.total_bytes();
  result.model_flops = plan.model_flops;
  OpTimes times;
  {
    Arena arena = Arena::allocated(plan.memory.total(), device);
    Context context{.mode = Mode::Run, .cpu = cpu, .arena = &arena, .log = nullptr, .device = device};
    train::Training training(context, config, plan.model, ranks);
    training.initialize();
    const RandomTokens data(plan.model.vocab);
    std::int64_t step = 0;
    const auto run_step = [&](OpLog* log) {
      context.log = log;
      const auto start = std::chrono::steady_clock::now();
      const train::StepReport done = training.step(&data, step++);
      return std::pair(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), done.comm_ms / 1e3);
    };
    while (step < kWarmUp) run_step(nullptr);
    std::vector<double> seconds, comm_seconds;
    const double processor = processor_seconds();
    for (std::int64_t i = 0; i < steps; ++i) {
      OpLog log;
      const auto [whole, communication] = run_step(device == nullptr ? &log : nullptr);
      seconds.push_back(whole);
      comm_seconds.push_back(communication);
      if (device == nullptr) times.add(log);
    }
    result.processor_seconds = (processor_seconds() - processor) / static_cast<double>(steps);
    result.step = summarize(std::move(seconds));
    result.comm_seconds = summarize(std::move(comm_seconds)).median;
    result.resident_bytes = train::resident_bytes();
    for (std::int64_t i = 0; i < steps && device != nullptr; ++i) {
      OpLog log;
      run_step(&log);
      times.add(log);
    }
  }
  times.add_rows(config.compute_type(), report);
  const StepProducts products = measure_step_products(times.entries(), config.compute_type(), cpu, device);
  result.gemm_seconds = products.seconds;
  result.gemm_flops = products.flops;
  return result;
}

std::string describe(const TrainResult& r, const Report& report) {
  double in_ops = 0;
  for (const Row& row : report.rows) in_ops += row.time.median;
  const double mib = 1.0 / (1 << 20);
  std::string text = table_heading();
  for (const Row& row : report.rows) text += table_line(row);
  text += fmt::format(
      "\nstep        {:.1f} ms (p20 {:.1f}, p80 {:.1f}, least {:.1f}; {} steps), {:.0f} tokens/s, {:.0f} GFLOP/s of the model\n",
      r.step.median * 1e3, r.step.p20 * 1e3, r.step.p80 * 1e3, r.step.least * 1e3, r.step.count, r.tokens_per_s(),
      r.model_flops * r.ranks / r.step.median * 1e-9);
  if (r.ranks > 1) {
    text += fmt::format(
        "ranks       {}, of which the first is shown; communication takes it {:.1f} ms of the step ({:.1f}%) that are not hidden\n",
        r.ranks, r.comm_seconds * 1e3, 100 * r.comm_seconds / r.step.median);
  }
  text += fmt::format("processors  {:.1f} ms a step, all threads together\n", r.processor_seconds * 1e3);
  text += fmt::format("ops         {:.1f} ms of the step ({:.1f}%)\n", in_ops * 1e3, 100 * in_ops / r.step.median);
  text += fmt::format("products    {:.1f} ms alone at their best, {:.0f} GFLOP/s\n", r.gemm_seconds * 1e3,
                      r.gemm_flops / r.gemm_seconds * 1e-9);
  text += fmt::format("efficiency  {:.1f}% (products alone / step)\n", 100 * r.efficiency());
  text += fmt::format("utilisation {:.1f}% (FLOPs of the model / those of large products in that time)\n",
                      100 * r.utilisation(report.ceilings));
  text += fmt::format("memory      {:.1f} MiB planned, {:.1f} MiB resident after the steps\n", static_cast<double>(r.planned_bytes) * mib,
                      static_cast<double>(r.resident_bytes) * mib);
  return text;
}

Json to_json(const TrainResult& r) {
  return {{"step_ms", r.step.median * 1e3},
          {"p20_ms", r.step.p20 * 1e3},
          {"p80_ms", r.step.p80 * 1e3},
          {"least_ms", r.step.least * 1e3},
          {"steps", r.step.count},
          {"ranks", r.ranks},
          {"comm_ms", r.comm_seconds * 1e3},
          {"tokens", r.tokens},
          {"tokens_per_s", r.tokens_per_s()},
          {"processor_ms", r.processor_seconds * 1e3},
          {"products_ms", r.gemm_seconds * 1e3},
          {"efficiency", r.efficiency()},
          {"model_flops", r.model_flops},
          {"planned_bytes", r.planned_bytes},
          {"resident_bytes", r.resident_bytes}};
}

}  // namespace oxrse::bench

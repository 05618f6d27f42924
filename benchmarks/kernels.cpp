#include "benchmarks/kernels.h"

#include <algorithm>
#include <optional>

namespace oxrse::bench {
namespace {

/// What a case is and takes, from building and running it in a plan.
struct Outline {
  std::string kernel, shape;
  Cost cost;
  std::int64_t bytes = 0;  // of the arena
};

Outline outline_of(const Case& c, DType type, DType precision) {
  Arena arena = Arena::planned();
  OpLog log;
  Context context{.mode = Mode::Plan, .cpu = {}, .arena = &arena, .log = nullptr};
  Operands operands(context, type, precision);
  const auto call = c.build(operands);
  context.log = &log;
  call();
  const OpLog::Entry& entry = log.entries().front();
  return {std::string(entry.name), entry.shape, entry.cost, arena.peak().total()};
}

/// The results of one run in f64, of inputs that were rounded to `type`.
class Truth {
 public:
  Truth(const Case& c, DType type, const Cpu& cpu)
      : arena_(Arena::allocated(outline_of(c, DType::F64, type).bytes)),
        context_{.mode = Mode::Run, .cpu = cpu, .arena = &arena_, .log = nullptr},
        operands_(context_, DType::F64, type) {
    c.build(operands_)();
  }
  [[nodiscard]] const std::vector<Tensor>& results() const { return operands_.results(); }

 private:
  Arena arena_;
  Context context_;
  Operands operands_;
};

bool has_clock(const KernelOptions& options) { return options.device == nullptr || options.device->has_clock(); }

/// Whether the case's kernel is there for the type.
bool has_kernel(const Case& c, DType type, const KernelOptions& options) {
  return !c.wgmma || (options.device != nullptr && options.device->has_wgmma && size_of(type) == 2);
}

/// The device takes the case's kernel.
class Choice {
 public:
  Choice(const Case& c, Cuda* device) : device_(device), before_(device != nullptr && device->wgmma) {
    if (device_ != nullptr) device_->wgmma = c.wgmma;
  }
  ~Choice() {
    if (device_ != nullptr) device_->wgmma = before_;
  }
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;

 private:
  Cuda* device_;
  bool before_;
};

class Runner {
 public:
  Runner(const Case& c, DType type, const Outline& outline, const KernelOptions& options, const Cpu& cpu)
      : case_(c), type_(type), options_(options), copies_(copies_of(outline.bytes, options)) {
    arena_.emplace(Arena::allocated(outline.bytes * copies_, options.device));
    context_ = {.mode = Mode::Run, .cpu = cpu, .arena = &*arena_, .log = nullptr, .device = options.device};
  }

  /// Fills in what was measured.
  void run(Row& row) {
    Operands first(context_, type_, type_);
    std::vector<std::function<void()>> calls = {case_.build(first)};
    context_.wait();
    if (options_.device != nullptr) options_.device->launches = &row.launches;
    if (options_.check || options_.device != nullptr) calls[0]();
    if (options_.device != nullptr) options_.device->launches = nullptr;
    context_.wait();
    if (options_.check) row.max_err = largest_error(first.results(), Truth(case_, type_, context_.cpu).results());
    if (!has_clock(options_)) return;
    for (std::int64_t i = 1; i < copies_; ++i) {
      Operands copy(context_, first);
      calls.push_back(case_.build(copy));
    }
    context_.wait();
    const auto call = [&](std::int64_t i) { calls[static_cast<std::size_t>(i % copies_)](); };
    row.time = options_.device == nullptr ? measure(options_.patience, call) : measure_on_device(call);
  }

 private:
  /// Some calls at once, so that launching them does not take longer than running them.
  Samples measure_on_device(const std::function<void(std::int64_t)>& call) const {
    constexpr std::int64_t kCalls = 10;
    return measure_seconds(options_.patience, [&](std::int64_t i) {
      const double seconds = options_.device->seconds_of([&] {
        for (std::int64_t j = 0; j < kCalls; ++j) call(i * kCalls + j);
      });
      return seconds / kCalls;
    });
  }

  /// Copies that together are twice the last-level cache; one where nothing is timed.
  static std::int64_t copies_of(std::int64_t bytes, const KernelOptions& options) {
    constexpr std::int64_t kMost = 64;
    if (!options.cold || !has_clock(options)) return 1;
    const std::int64_t cache = options.device == nullptr ? last_level_cache_bytes() : options.device->cache_bytes();
    return std::clamp<std::int64_t>(2 * cache / std::max<std::int64_t>(bytes, 1) + 1, 1, kMost);
  }

  const Case& case_;
  DType type_;
  const KernelOptions& options_;
  std::int64_t copies_;
  std::optional<Arena> arena_;
  Context context_;
};

/// Calls `f` with the case, type and outline of everything that the filter lets through.
template <class F>
void for_each_match(const std::vector<Case>& cases, const KernelOptions& options, F&& f) {
  const std::regex filter(options.filter);
  for (const Case& c : cases) {
    for (const DType type : options.types) {
      if (!has_kernel(c, type, options)) continue;
      const Outline outline = outline_of(c, type, type);
      if (std::regex_search(fmt::format("{} {} {} {}", outline.kernel, c.variant, name_of(type), outline.shape), filter))
        f(c, type, outline);
    }
  }
}

}  // namespace

std::int64_t count_matches(const std::vector<Case>& cases, const KernelOptions& options) {
  std::int64_t count = 0;
  for_each_match(cases, options, [&](const Case& /*c*/, DType /*type*/, const Outline& /*outline*/) { ++count; });
  return count;
}

void run_cases(const std::vector<Case>& cases, const KernelOptions& options, const Cpu& cpu, Report& report,
               const std::function<void(const Row&)>& row_done) {
  for_each_match(cases, options, [&](const Case& c, DType type, const Outline& outline) {
    Row row{.kernel = outline.kernel,
            .variant = c.variant,
            .dtype = type,
            .shape = outline.shape,
            .mode = !has_clock(options) ? "once"
                    : options.cold      ? "cold"
                                        : "hot",
            .time = {},
            .cost = outline.cost};
    const Choice choice(c, options.device);
    Runner(c, type, outline, options, cpu).run(row);
    if (row.timed()) {
      row.floor = report.ceilings.floor_seconds(row.cost, type, options.cold);
      row.bound = report.ceilings.binding(row.cost, type, options.cold);
    }
    report.rows.push_back(row);
    row_done(row);
  });
}

}  // namespace oxrse::bench

#include "engine/train/advice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/json.h"
#include "engine/train/terminal.h"

namespace oxrse::train {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double number(const Json& line, const char* key) {
  const auto value = line.find(key);
  return value != line.end() && value->is_number() ? value->get<double>() : 0;
}

std::string steps_and_time(double seconds, double step) {
  const std::string time = seconds < 10 ? fmt::format("{:.1f} s", seconds) : format_duration(seconds);
  return step > 0 ? fmt::format("{:.0f} steps ({})", std::max(seconds / step, 1.0), time) : time;
}

}  // namespace

double best_interval(double stall, double mtbf) {
  if (stall >= 2 * mtbf) return mtbf;
  const double ratio = stall / (2 * mtbf);
  return std::sqrt(2 * stall * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - stall;
}

double expected_waste(double interval, const SaveCost& cost, double mtbf) {
  return 1 - interval / (mtbf * std::exp(cost.delay / mtbf) * std::expm1((interval + cost.stall) / mtbf));
}

std::string advise(const SaveCost& cost, double mtbf_hours, std::int64_t every) {
  const double mtbf = mtbf_hours * 3600, best = std::max(best_interval(cost.stall, mtbf), cost.step);
  std::string text = fmt::format("with a failure every {:g} h, saving every {} loses least, {:.2g}% of the time", mtbf_hours,
                                 steps_and_time(best, cost.step), 100 * expected_waste(best, cost, mtbf));
  if (every > 0 && cost.step > 0) {
    text += fmt::format("; every {} steps, as now, loses {:.2g}%", every,
                        100 * expected_waste(static_cast<double>(every) * cost.step, cost, mtbf));
  }
  return text + " (Young/Daly, doi:10.1016/j.future.2004.11.016)";
}

std::optional<SaveCost> recorded_cost(const std::filesystem::path& metrics) {
  std::vector<double> stalls, steps;
  std::ifstream file(metrics);
  for (std::string text; std::getline(file, text);) {
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object()) continue;
    if (const double ms = number(line, "checkpoint_ms"); ms > 0) stalls.push_back(ms / 1e3);
    if (const double ms = number(line, "step_ms"); ms > 0) steps.push_back(ms / 1e3);
  }
  if (stalls.empty() || steps.empty()) return std::nullopt;
  return SaveCost{.stall = median(stalls), .delay = 0, .step = median(steps)};
}

SaveCost estimated_cost(std::int64_t bytes) {
  constexpr std::size_t kSample = std::size_t{64} << 20U;
  const auto from = std::make_unique<std::byte[]>(kSample), to = std::make_unique<std::byte[]>(kSample);
  double seconds = 0;
  for (int round = 0; round < 3; ++round) {  // the first also provides the memory
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(to.get(), from.get(), kSample);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return {.stall = seconds * static_cast<double>(bytes) / static_cast<double>(kSample), .delay = 0, .step = 0};
}

}  // namespace oxrse::train

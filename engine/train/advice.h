#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace oxrse::train {

/// What a checkpoint costs a run, in seconds.
struct SaveCost {
  double stall = 0;  // training stands still
  double delay = 0;  // from its step until it is on the disk: a failure before falls back to the one before
  double step = 0;   // of training; 0: not known
};

/// The time of training between two checkpoints that loses least when failures come at random, every `mtbf` seconds on average. Young's
/// sqrt(2 d M) with Daly's corrections of higher order: J. T. Daly, A higher order estimate of the optimum checkpoint interval for
/// restart dumps, Future Generation Computer Systems 22 (2006) 303, https://doi.org/10.1016/j.future.2004.11.016, eq. 37.
double best_interval(double stall, double mtbf);

/// The part of a run's time that is lost to saving and to doing work again, with `interval` seconds of training between checkpoints. After
/// a failure, `delay` seconds of work more are lost than were done since the last save (eq. 20 there, with the restart time as delay).
double expected_waste(double interval, const SaveCost& cost, double mtbf);

/// One line: the best interval and what it loses, beside what saving every `every` steps loses. Needs a stall, an mtbf and, to compare, a
/// time of a step above 0.
std::string advise(const SaveCost& cost, double mtbf_hours, std::int64_t every);

/// The medians of what a run recorded in its metrics.jsonl; nothing when there is no checkpoint in it.
std::optional<SaveCost> recorded_cost(const std::filesystem::path& metrics);

/// What saving `bytes` takes where nothing was recorded yet: a copy in memory, at the speed measured now.
SaveCost estimated_cost(std::int64_t bytes);

}  // namespace oxrse::train

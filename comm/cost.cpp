#include "comm/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace oxrse::comm {
double CostModel::predict(const Program& program, DType type) const {
  const double narrow = static_cast<double>(size_of(type)), wide = static_cast<double>(size_of(accumulator_of(type)));
  double seconds = 0;
  for (const Step& step : program.steps) {
    double sends = 0, receives = 0, sent = 0, received = 0;
    for (const Action& a : step.transfers) {
      const double bytes = static_cast<double>(std::max(a.from.count, a.to.count)) * (a.wide ? wide : narrow);
      (a.kind == Action::Kind::Send ? sends : receives) += 1;
      (a.kind == Action::Kind::Send ? sent : received) += bytes;
      if (a.kind == Action::Kind::ReceiveReduce) seconds += gamma * bytes;
    }
    seconds += alpha * std::max(sends, receives) + beta * std::max(sent, received);
    for (const Action& a : step.local) seconds += (a.kind == Action::Kind::Copy ? copy : gamma) * static_cast<double>(a.to.count) * narrow;
  }
  return seconds;
}

double CostModel::predict(Algorithm algorithm, const Request& request, DType type) const {
  const int n = request.ranks();
  double most = 0;
  for (int rank = 0; rank < n; rank += std::max(1, n / 8)) most = std::max(most, predict(compile(algorithm, request, rank), type));
  return most;
}

std::int64_t CostModel::best_chunk(const Request& request, DType type) const {
  // Time grows with (depth + chunks) (a + S b / chunks): least at chunks = sqrt(depth S b / a).
  const double bytes = static_cast<double>(request.count * size_of(type));
  const double depth = std::bit_width(static_cast<unsigned>(request.ranks()));
  const double chunks = std::max(1.0, std::sqrt(depth * bytes * beta / alpha));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(request.count) / chunks));
}

std::vector<Algorithm> candidates(const Request& request, const Choice& choice) {
  const auto keeps = [](Algorithm a) { return a == Algorithm::Doubling || a == Algorithm::Halving || a == Algorithm::Direct; };
  std::vector<Algorithm> found;
  for (const bool any : {false, true}) {
    for (const Algorithm a : kAlgorithms) {
      const bool is_allowed = any || choice.allowed.empty() || std::ranges::count(choice.allowed, a) > 0;
      if (is_allowed && supports(a, request) && (!choice.keep_tree || keeps(a))) found.push_back(a);
    }
    if (!found.empty()) return found;
  }
  return {request.collective == Collective::AllToAll || request.collective == Collective::Broadcast ? Algorithm::Direct
                                                                                                    : Algorithm::Halving};
}

Algorithm choose(const CostModel& model, const Request& request, DType type, const Choice& choice) {
  const std::vector<Algorithm> all = candidates(request, choice);
  double least = std::numeric_limits<double>::infinity();
  Algorithm best = all.front();
  for (const Algorithm a : all) {
    const double seconds = all.size() > 1 ? model.predict(a, request, type) : 0;
    if (seconds < least) {
      least = seconds;
      best = a;
    }
  }
  return best;
}

}  // namespace oxrse::comm

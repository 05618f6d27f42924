#include "comm/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace oxrse::comm {

double CostModel::message_seconds(double bytes) const {
  int k = 1;
  while (k + 1 < kSizes && static_cast<double>(size(k)) < bytes) ++k;
  const auto least = static_cast<double>(size(k - 1)), most = static_cast<double>(size(k));
  const double from = message[static_cast<std::size_t>(k) - 1], to = message[static_cast<std::size_t>(k)];
  return std::max(bytes, least) <= least ? from : from + (to - from) * (bytes - least) / (most - least);
}

double CostModel::bandwidth() const {
  return static_cast<double>(size(kSizes - 1) - size(kSizes - 2)) / (message.back() - message[kSizes - 2]);
}

double CostModel::predict(const Program& program, DType type) const {
  const double narrow = static_cast<double>(size_of(type)), wide = static_cast<double>(size_of(accumulator_of(type)));
  double seconds = operation;
  for (const Step& step : program.steps) {
    double sends = 0, receives = 0;
    for (const Action& a : step.transfers) {
      const double bytes = static_cast<double>(std::max(a.from.count, a.to.count)) * (a.wide ? wide : narrow);
      (a.kind == Action::Kind::Send ? sends : receives) += message_seconds(bytes);
      if (a.kind == Action::Kind::ReceiveReduce) seconds += gamma * bytes;
    }
    seconds += std::max(sends, receives);
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
  const double bytes = static_cast<double>(request.count * size_of(type));
  const double depth = std::bit_width(static_cast<unsigned>(request.ranks()));
  std::int64_t best = std::max<std::int64_t>(request.count, 1);
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t chunk = best; chunk > 0; chunk /= 2) {
    const double chunks = static_cast<double>(request.count) / static_cast<double>(chunk);
    const double seconds = (depth + chunks) * message_seconds(bytes / std::max(chunks, 1.0));
    if (seconds < least) {
      least = seconds;
      best = chunk;
    }
  }
  return best;
}

Json to_json(const CostModel& model) {
  Json sizes = Json::array();
  for (int k = 0; k < CostModel::kSizes; ++k) sizes.push_back(CostModel::size(k));
  return {{"message_bytes", sizes},
          {"message_s", model.message},
          {"operation_s", model.operation},
          {"sum_s_per_byte", model.gamma},
          {"copy_s_per_byte", model.copy}};
}

CostModel read_costs(const JsonDocument& document) {
  const JsonNode root(document);
  const auto positive = [](const JsonNode& node) {
    node.require(node.value().is_number() && node.value().get<double>() > 0, "expected seconds above 0, not {}", shown(node.value()));
    return node.value().get<double>();
  };
  CostModel model{.message = {},
                  .operation = positive(root.at("operation_s")),
                  .gamma = positive(root.at("sum_s_per_byte")),
                  .copy = positive(root.at("copy_s_per_byte"))};
  const Json sizes = to_json(model)["message_bytes"];
  root.at("message_bytes")
      .require(root.at("message_bytes").value() == sizes, "expected {}: write the file anew with oxrse bench collectives --save-costs",
               shown(sizes));
  for (std::size_t k = 0; k < CostModel::kSizes; ++k) {
    model.message[k] = positive(root.at("message_s").at(k));
    root.at("message_s").at(k).require(k == 0 || model.message[k] >= model.message[k - 1], "expected no less than for fewer bytes");
  }
  return model;
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

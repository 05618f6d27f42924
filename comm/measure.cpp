#include "comm/measure.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "comm/memory.h"

namespace oxrse::comm {
namespace {

/// A plan of one local action on two halves of `count` elements.
std::shared_ptr<const Plan> local_plan(Action::Kind kind, std::int64_t count) {
  const Range to{Buffer::Output, 0, 0, count}, from{Buffer::Output, 0, count, count};
  auto plan = std::make_shared<Plan>();
  plan->program.steps.push_back(
      {.transfers = {}, .local = {{.kind = kind, .peer = -1, .to = to, .from = from, .with = to, .wide = false}}});
  return plan;
}

/// The least of several times that an f32 operation in place takes: on a busy machine it says most about the way itself.
double least_seconds(Communicator& ranks, const std::shared_ptr<const Plan>& plan, std::int64_t count) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTimes = 20;
  const MirroredMemory memory(ranks.device(), count * size_of(DType::F32));
  const Operands operands{.type = DType::F32, .inputs = {memory.data()}, .output = memory.data(), .on_device = ranks.device() != nullptr};
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = Clock::now();
    ranks.wait(ranks.start(plan, operands, "measurement"));
    least = std::min(least, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return least;
}

}  // namespace

CostModel measure(Communicator& ranks) {
  constexpr std::int64_t kLocal = 1 << 18;
  const int n = ranks.size();
  if (n == 1) return {};
  std::vector<double> numbers;
  for (int k = 0; k < CostModel::kSizes; ++k) {
    const std::int64_t count = CostModel::size(k) / size_of(DType::F32) * n;
    Request r = request(Collective::AllGather, n, count);
    r.in_place = true;
    numbers.push_back(least_seconds(ranks, ranks.plan(r, DType::F32, Algorithm::Ring), count) / (n - 1));
  }
  for (const Action::Kind kind : {Action::Kind::Reduce, Action::Kind::Copy}) {
    numbers.push_back(least_seconds(ranks, local_plan(kind, kLocal), 2 * kLocal) / static_cast<double>(kLocal * size_of(DType::F32)));
  }
  ranks.all_reduce(numbers, "measurement");
  CostModel model;
  for (std::size_t k = 0; k < CostModel::kSizes; ++k) {
    // More bytes never take less: where they seem to, the machine was busy.
    model.message[k] = std::max(numbers[k] / n, k == 0 ? 0 : model.message[k - 1] * (1 + 1e-6));
  }
  model.gamma = numbers[CostModel::kSizes] / n;
  model.copy = numbers[CostModel::kSizes + 1] / n;
  return model;
}

}  // namespace oxrse::comm

#include "comm/measure.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "comm/memory.h"

namespace oxrse::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// A plan of one local action on two halves of `count` elements.
std::shared_ptr<const Plan> local_plan(Action::Kind kind, std::int64_t count) {
  const Range to{Buffer::Output, 0, 0, count}, from{Buffer::Output, 0, count, count};
  auto plan = std::make_shared<Plan>();
  plan->program.steps.push_back(
      {.transfers = {}, .local = {{.kind = kind, .peer = -1, .to = to, .from = from, .with = to, .wide = false}}});
  return plan;
}

/// An f32 operation in place that is timed again and again. The least counts: on a busy machine it says most about the way itself.
class Timed {
 public:
  Timed(Communicator& ranks, std::shared_ptr<const Plan> plan, std::int64_t count)
      : ranks_(ranks), plan_(std::move(plan)), memory_(ranks.device(), count * size_of(DType::F32)) {}

  void run() {
    const Operands operands{
        .type = DType::F32, .inputs = {memory_.data()}, .output = memory_.data(), .on_device = ranks_.device() != nullptr};
    const auto begin = Clock::now();
    ranks_.wait(ranks_.start(plan_, operands, "measurement"));
    least_ = std::min(least_, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  [[nodiscard]] double seconds() const { return least_; }

 private:
  Communicator& ranks_;
  std::shared_ptr<const Plan> plan_;
  MirroredMemory memory_;
  double least_ = std::numeric_limits<double>::infinity();
};

Timed message(Communicator& ranks, std::int64_t bytes) {
  const std::int64_t count = bytes / size_of(DType::F32) * ranks.size();
  Request r = request(Collective::AllGather, ranks.size(), count);
  r.in_place = true;
  return {ranks, ranks.plan(r, DType::F32, Algorithm::Ring), count};
}

Timed local(Communicator& ranks, Action::Kind kind, std::int64_t count) { return {ranks, local_plan(kind, count), 2 * count}; }

}  // namespace

CostModel measure(Communicator& ranks) {
  constexpr std::int64_t kLocal = 1 << 18;
  constexpr int kRounds = 30, kTimes = 3;
  constexpr std::chrono::milliseconds kMost{100};
  if (ranks.size() == 1) return {};
  std::vector<Timed> all;
  for (int k = 0; k < CostModel::kSizes; ++k) all.push_back(message(ranks, CostModel::size(k)));
  all.push_back(local(ranks, Action::Kind::Copy, 1));
  all.push_back(local(ranks, Action::Kind::Reduce, kLocal));
  all.push_back(local(ranks, Action::Kind::Copy, kLocal));
  // Round by round, so that what else the machine does for a moment does not meet all the times of one size. Where ranks share processors,
  // a round takes long, and the first rank says when it is enough.
  const auto begin = Clock::now();
  for (int i = 0; i < kRounds; ++i) {
    for (Timed& timed : all) {
      for (int t = 0; t < kTimes; ++t) timed.run();
    }
    double enough[] = {ranks.rank() == 0 && Clock::now() - begin > kMost ? 1.0 : 0.0};
    ranks.all_reduce(enough, "measurement");
    if (enough[0] > 0) break;
  }
  std::vector<double> seconds;
  for (const Timed& timed : all) seconds.push_back(timed.seconds());
  ranks.all_reduce(seconds, "measurement");
  for (double& s : seconds) s /= ranks.size();

  CostModel model;
  model.operation = seconds[CostModel::kSizes];
  const auto beyond_operation = [&](double s) { return std::max(s - model.operation, 1e-9); };
  for (std::size_t k = 0; k < CostModel::kSizes; ++k) {
    // More bytes never take less: where they seem to, the machine was busy.
    model.message[k] = std::max(beyond_operation(seconds[k]) / (ranks.size() - 1), k == 0 ? 0 : model.message[k - 1] * (1 + 1e-6));
  }
  const auto a_byte = [&](std::size_t place) {
    return beyond_operation(seconds[place]) / static_cast<double>(kLocal * size_of(DType::F32));
  };
  model.gamma = a_byte(CostModel::kSizes + 1);
  model.copy = a_byte(CostModel::kSizes + 2);
  return model;
}

}  // namespace oxrse::comm

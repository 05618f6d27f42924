#include "engine/parallel/gradient_sum.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace oxrse::parallel {
namespace {

comm::ReductionTree tree_of(int ranks, std::int64_t total, nn::Gradients::Order order) {
  if (order == nn::Gradients::Order::Sequential) return comm::ReductionTree::pairwise(ranks);
  std::vector<comm::Block> blocks;
  for (int r = 0; r < ranks; ++r) {
    int part = 0;
    for (const nn::GradientBlock& b : nn::Gradients::blocks_of(nn::MicroBatches::of_rank(total, r, ranks), order)) {
      blocks.push_back({b.begin, b.end, r, part++});
    }
  }
  return comm::ReductionTree::of_blocks(blocks);
}

/// Makes the requests of buckets.
class Requests {
 public:
  Requests(const SumSpec& spec, int ranks) : scattered_(spec.scattered), tree_(tree_of(ranks, spec.total, spec.order)), ranks_(ranks) {}

  [[nodiscard]] comm::Request of(const Bucket& bucket) const {
    const comm::Collective collective = scattered_ ? comm::Collective::ReduceScatter : comm::Collective::AllReduce;
    comm::Request request = comm::request(collective, ranks_, bucket.count());
    if (scattered_) request.bounds = bucket.bounds;
    request.in_place = true;
    request.tree = tree_;
    return request;
  }

 private:
  bool scattered_;
  comm::ReductionTree tree_;
  int ranks_;
};

}  // namespace

std::int64_t scratch_of_sums(const std::vector<Bucket>& buckets, const SumSpec& spec, const Group& group, const comm::Choice& choice) {
  const int ranks = group.size;
  if (ranks == 1) return 0;
  const Requests requests(spec, ranks);
  std::set<std::vector<std::int64_t>> seen;  // shares: layers repeat
  std::int64_t most = 0;
  for (const Bucket& bucket : buckets) {
    comm::Request request = requests.of(bucket);
    if (!seen.insert(request.bounds).second) continue;
    request.chunk = request.count;  // the largest that an algorithm may be given
    request.segment = group.linked ? 0 : comm::Communicator::kSegmentBytes / size_of(spec.type);
    for (const comm::Algorithm algorithm : comm::candidates(request, choice)) {
      // Of many ranks, a few are looked at, as the cost model does.
      for (int rank = 0; rank < ranks; rank += std::max(1, ranks / 8)) {
        const comm::Program program = comm::compile(algorithm, request, rank);
        most =
            std::max(most, group.linked ? comm::memory_on_device(program, spec.type) : comm::HostExecution::memory_of(program, spec.type));
      }
    }
  }
  return comm::Communicator::kActive * most;
}

GradientSum::GradientSum(comm::Communicator& ranks, const std::vector<Bucket>& buckets, const SumSpec& spec)
    : ranks_(ranks), type_(spec.type) {
  const Requests requests(spec, ranks.size());
  std::map<std::vector<std::int64_t>, std::shared_ptr<const comm::Plan>> plans;  // by shares: layers repeat
  for (const Bucket& bucket : buckets) {
    comm::Request request = requests.of(bucket);
    auto& plan = plans[request.bounds];
    if (!plan) plan = ranks.plan(std::move(request), type_);
    reductions_.push_back({bucket.begin, bucket.end, plan});
  }
}

void GradientSum::start(const nn::Gradients& gradients, std::int64_t begin) {
  const std::vector<Tensor> blocks = gradients.block_sums();
  while (tickets_.size() < reductions_.size() && reductions_[tickets_.size()].begin >= begin) {
    const Reduction& next = reductions_[tickets_.size()];
    comm::Operands operands{.type = type_, .inputs = {}, .output = nullptr, .on_device = ranks_.device() != nullptr};
    for (const Tensor& block : blocks) operands.inputs.push_back(block.slice(0, next.begin, next.end).address());
    operands.output = operands.inputs.front();
    tickets_.push_back(ranks_.start(next.plan, std::move(operands), "gradients"));
  }
}

void GradientSum::wait() {
  for (const auto ticket : std::exchange(tickets_, {})) ranks_.wait(ticket);
}

}  // namespace oxrse::parallel

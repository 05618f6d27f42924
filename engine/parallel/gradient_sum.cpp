#include "engine/parallel/gradient_sum.h"

#include <map>
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

}  // namespace

GradientSum::GradientSum(comm::Communicator& ranks, const std::vector<Bucket>& buckets, std::int64_t total, nn::Gradients::Order order,
                         DType type, bool scattered)
    : ranks_(ranks), type_(type) {
  const comm::ReductionTree tree = tree_of(ranks.size(), total, order);
  const comm::Collective collective = scattered ? comm::Collective::ReduceScatter : comm::Collective::AllReduce;
  std::map<std::vector<std::int64_t>, std::shared_ptr<const comm::Plan>> plans;  // by shares: layers repeat
  for (const Bucket& bucket : buckets) {
    comm::Request request = comm::request(collective, ranks.size(), bucket.count());
    if (scattered) request.bounds = bucket.bounds;
    auto& plan = plans[request.bounds];
    if (!plan) {
      request.in_place = true;
      request.tree = tree;
      plan = ranks.plan(std::move(request), type);
    }
    reductions_.push_back({bucket.begin, bucket.end, plan});
  }
}

void GradientSum::start(const nn::Gradients& gradients, std::int64_t begin) {
  const std::vector<Tensor> blocks = gradients.block_sums();
  while (tickets_.size() < reductions_.size() && reductions_[tickets_.size()].begin >= begin) {
    const Reduction& next = reductions_[tickets_.size()];
    comm::Operands operands{.type = type_, .inputs = {}, .output = nullptr};
    for (const Tensor& block : blocks) operands.inputs.push_back(block.slice(0, next.begin, next.end).address());
    operands.output = operands.inputs.front();
    tickets_.push_back(ranks_.start(next.plan, std::move(operands), "gradients"));
  }
}

void GradientSum::wait() {
  for (const auto ticket : std::exchange(tickets_, {})) ranks_.wait(ticket);
}

}  // namespace oxrse::parallel

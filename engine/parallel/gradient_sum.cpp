#include "engine/parallel/gradient_sum.h"

#include <map>

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

GradientSum::GradientSum(comm::Communicator& ranks, const nn::Gradients& gradients, std::int64_t total, nn::Gradients::Order order,
                         DType type, std::int64_t bucket_bytes)
    : ranks_(ranks), type_(type) {
  const comm::ReductionTree tree = tree_of(ranks.size(), total, order);
  const auto& offsets = gradients.offsets();
  std::map<std::int64_t, std::shared_ptr<const comm::Plan>> plans;  // by elements: layers repeat
  for (std::size_t end = offsets.size() - 1; end > 0;) {
    std::size_t begin = end - 1;
    while (begin > 0 && (offsets[end] - offsets[begin - 1]) * size_of(type) <= bucket_bytes) --begin;
    const std::int64_t count = offsets[end] - offsets[begin];
    auto& plan = plans[count];
    if (!plan) {
      comm::Request request = comm::request(comm::Collective::AllReduce, ranks.size(), count);
      request.in_place = true;
      request.tree = tree;
      plan = ranks.plan(std::move(request), type);
    }
    buckets_.push_back({offsets[begin], plan});
    end = begin;
  }
}

void GradientSum::run(const nn::Gradients& gradients) {
  const std::vector<Tensor> blocks = gradients.block_sums();
  std::vector<comm::Communicator::Ticket> tickets;
  for (const Bucket& bucket : buckets_) {
    comm::Operands operands{.type = type_, .inputs = {}, .output = nullptr};
    for (const Tensor& block : blocks) operands.inputs.push_back(block.slice(0, bucket.begin, block.count()).address());
    operands.output = operands.inputs.front();
    tickets.push_back(ranks_.start(bucket.plan, std::move(operands), "gradients"));
  }
  for (const auto ticket : tickets) ranks_.wait(ticket);
}

}  // namespace oxrse::parallel

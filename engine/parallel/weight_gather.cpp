#include "engine/parallel/weight_gather.h"

#include <map>
#include <utility>

namespace oxrse::parallel {

WeightGather::WeightGather(comm::Communicator& ranks, const std::vector<Bucket>& buckets, DType type) : ranks_(ranks) {
  std::map<std::vector<std::int64_t>, std::shared_ptr<const comm::Plan>> plans;  // by shares: layers repeat
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    auto& plan = plans[bucket->bounds];
    if (!plan) {
      comm::Request request = comm::request(comm::Collective::AllGather, ranks.size(), bucket->count());
      request.bounds = bucket->bounds;
      request.in_place = true;
      plan = ranks.plan(std::move(request), type);
    }
    gathers_.push_back({bucket->begin, bucket->end, plan});
  }
}

void WeightGather::run(const Tensor& weights) {
  std::vector<comm::Communicator::Ticket> tickets;
  for (const Gather& gather : gathers_) {
    std::byte* shares = weights.slice(0, gather.begin, gather.end).address();
    tickets.push_back(ranks_.start(
        gather.plan, {.type = weights.dtype(), .inputs = {shares}, .output = shares, .on_device = ranks_.device() != nullptr}, "weights"));
  }
  for (const auto ticket : tickets) ranks_.wait(ticket);
}

}  // namespace oxrse::parallel

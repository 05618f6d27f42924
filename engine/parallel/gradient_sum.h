#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "engine/nn/gradients.h"
#include "engine/parallel/bucket.h"
#include "engine/parallel/group.h"

namespace oxrse::parallel {

/// What is summed over ranks: the `total` micro-batches of a step, which the ranks share evenly, in this order. When `scattered`, each rank
/// gets the sums of its shares of the buckets only, otherwise all sums.
struct SumSpec {
  std::int64_t total = 0;
  nn::Gradients::Order order = nn::Gradients::Order::Pairwise;
  DType type = DType::F32;
  bool scattered = false;
};

/// The most bytes besides the gradients that sums of these buckets take on any rank of the group, by any algorithm that `choice` leaves.
std::int64_t scratch_of_sums(const std::vector<Bucket>& buckets, const SumSpec& spec, const Group& group, const comm::Choice& choice);

/// Sums the gradients of data-parallel ranks, bucket by bucket, while backward goes on. With pairwise gradients the sum over the ranks goes
/// on with the tree over the micro-batches, so that its bits do not depend on how many ranks there are.
class GradientSum {
 public:
  GradientSum(comm::Communicator& ranks, const std::vector<Bucket>& buckets, const SumSpec& spec);
  ~GradientSum() {
    if (!tickets_.empty()) ranks_.halt();  // an error came between: the gradients may go
  }
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  /// Begins to sum the blocks of all ranks into every rank's first block, where they are complete from element `begin` on. The buckets
  /// that an earlier call has begun are left out.
  void start(const nn::Gradients& gradients, std::int64_t begin);
  /// Waits for all buckets, which have been started.
  void wait();

 private:
  struct Reduction {
    std::int64_t begin = 0, end = 0;  // elements of a block
    std::shared_ptr<const comm::Plan> plan;
  };
  comm::Communicator& ranks_;
  DType type_;
  std::vector<Reduction> reductions_;
  std::vector<comm::Communicator::Ticket> tickets_;  // of this step: one for every reduction that has begun
};

}  // namespace oxrse::parallel

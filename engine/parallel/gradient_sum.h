#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "engine/nn/gradients.h"
#include "engine/parallel/bucket.h"

namespace oxrse::parallel {

/// Sums the gradients of data-parallel ranks, bucket by bucket, while backward goes on. With pairwise gradients the sum over the ranks goes
/// on with the tree over the micro-batches, so that its bits do not depend on how many ranks there are.
class GradientSum {
 public:
  /// `total` micro-batches a step are shared evenly by the ranks. When `scattered`, each rank gets the sums of its shares of the buckets
  /// only, otherwise all sums.
  GradientSum(comm::Communicator& ranks, const std::vector<Bucket>& buckets, std::int64_t total, nn::Gradients::Order order, DType type,
              bool scattered);

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

#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "engine/nn/gradients.h"

namespace oxrse::parallel {

/// Sums the gradients of data-parallel ranks, bucket by bucket. With pairwise gradients the sum over the ranks goes on with the tree over
/// the micro-batches, so that its bits do not depend on how many ranks there are.
class GradientSum {
 public:
  /// `total` micro-batches a step are shared evenly by the ranks. A bucket is as many whole parameters as fit `bucket_bytes`, at least one;
  /// buckets begin at the end, where backward begins.
  GradientSum(comm::Communicator& ranks, const nn::Gradients& gradients, std::int64_t total, nn::Gradients::Order order, DType type,
              std::int64_t bucket_bytes);

  /// Sums the blocks of all ranks into every rank's first block, and waits until that is done.
  void run(const nn::Gradients& gradients);

 private:
  struct Bucket {
    std::int64_t begin = 0;  // element of a block
    std::shared_ptr<const comm::Plan> plan;
  };
  comm::Communicator& ranks_;
  DType type_;
  std::vector<Bucket> buckets_;
};

}  // namespace oxrse::parallel

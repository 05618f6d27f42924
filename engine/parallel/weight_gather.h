#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "engine/core/tensor.h"
#include "engine/parallel/bucket.h"

namespace oxrse::parallel {

/// Gives every rank the weights that the others have updated: ZeRO's all-gather.
class WeightGather {
 public:
  /// `type` is that of the weights.
  WeightGather(comm::Communicator& ranks, const std::vector<Bucket>& buckets, DType type);

  /// Every rank's shares of `weights` (all parameters in one piece) go to all, in place.
  void run(const Tensor& weights);

 private:
  struct Gather {
    std::int64_t begin = 0, end = 0;
    std::shared_ptr<const comm::Plan> plan;
  };
  comm::Communicator& ranks_;
  std::vector<Gather> gathers_;  // first parameters first, as the next forward pass needs them
};

}  // namespace oxrse::parallel

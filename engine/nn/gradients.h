#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/nn/parameters.h"

namespace oxrse::nn {

/// The gradients of a step: sums over the tokens of all micro-batches, in the accumulator type.
///
/// Pairwise accumulation adds micro-batches as a binary counter does: neighbours first, then pairs of neighbours, and so on. The
/// tree depends on the index of a micro-batch only, so the same tree, and so the same bits, come out when ranks share the
/// micro-batches. It needs one more buffer for every doubling of the micro-batches. Sequential accumulation needs one buffer.
class Gradients {
 public:
  enum class Order : std::uint8_t { Pairwise, Sequential };

  /// Where a gradient goes: the first contribution of a micro-batch overwrites, later ones add.
  struct Target {
    Tensor sum;
    Write write = Write::Assign;
  };

  /// Makes room for the gradients of every parameter of `store` over steps of `micro_batches`.
  void allocate(Context& context, const ParameterStore& store, std::int64_t micro_batches, Order order);

  void begin_step();
  /// The place for the gradient of `id`, absent for an absent id. The caller must write it.
  Target target(ParameterId id);
  /// Adds the finished micro-batch to the earlier ones; an Error names a parameter that received no gradient. (A plan runs only the first
  /// micro-batch of a step, which stands for the others.)
  void end_micro_batch(Context& context);
  /// Completes the sum; `sums` is valid from here to the next begin_step.
  void end_step(Context& context);

  /// One tensor a parameter, in the order of the store.
  [[nodiscard]] std::span<const ConstTensor> sums() const { return sums_; }

 private:
  struct Buffer {
    Tensor flat;
    std::vector<Tensor> parts;
  };
  Buffer make_buffer(Context& context) const;

  const ParameterStore* store_ = nullptr;
  Order order_ = Order::Pairwise;
  std::vector<Buffer> buffers_;
  std::vector<int> free_;      // buffers not in use
  std::vector<int> levels_;    // levels_[k]: the buffer with the sum of an aligned block of 2^k micro-batches, or -1
  int current_ = 0;            // the buffer the running micro-batch writes to
  std::int64_t finished_ = 0;  // micro-batches of this step
  std::vector<bool> written_;  // parameters that hold a value in the current buffer
  std::vector<ConstTensor> sums_;
};

}  // namespace oxrse::nn

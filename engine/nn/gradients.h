#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/nn/parameters.h"

namespace oxrse::nn {

/// Micro-batches [first, first + count) of the `total` of a step: what one rank computes.
struct MicroBatches {
  std::int64_t first = 0, count = 0, total = 0;

  /// Those of a rank when each has as many.
  static MicroBatches of_rank(std::int64_t total, int rank, int ranks) { return {total / ranks * rank, total / ranks, total}; }
  [[nodiscard]] bool all() const { return count == total; }
};

/// A sum over micro-batches [begin, end).
struct GradientBlock {
  std::int64_t begin = 0, end = 0;
  int buffer = -1;
};

/// The gradients of a step: sums over the tokens of all micro-batches, in the accumulator type.
///
/// Pairwise accumulation adds micro-batches as a binary counter does: neighbours first, then pairs of neighbours, and so on. The
/// tree depends on the index of a micro-batch only, so the same tree, and so the same bits, come out when ranks share the
/// micro-batches: a rank then ends with the sums of the largest blocks of the tree that it has all of. It needs one more buffer for every
/// doubling of the micro-batches. Sequential accumulation needs one buffer.
class Gradients {
 public:
  enum class Order : std::uint8_t { Pairwise, Sequential };

  /// Where a gradient goes: the first contribution of a micro-batch overwrites, later ones add.
  struct Target {
    Tensor sum;
    Write write = Write::Assign;
  };

  /// Makes room for the gradients of every parameter of `store` over steps of which this rank computes `micro_batches`.
  void allocate(Context& context, const ParameterStore& store, const MicroBatches& micro_batches, Order order);

  /// Is told, during the last micro-batch of a step, from which element on the blocks of the step are complete: every call says less than
  /// the one before, the last one 0. `block_sums` is valid then.
  using Ready = std::function<void(std::int64_t begin)>;
  void on_ready(Ready ready) { ready_ = std::move(ready); }

  void begin_step();
  /// The place for the gradient of `id`, absent for an absent id. The caller must write it.
  Target target(ParameterId id);
  /// Says that this micro-batch adds nothing more to the parameters from number `first` on: backward passes reach the last ones first.
  void complete_from(Context& context, std::size_t first);
  /// Adds the finished micro-batch to the earlier ones; an Error names a parameter that received no gradient. (A plan runs only the first
  /// micro-batch of a step, which stands for the others.)
  void end_micro_batch(Context& context);
  /// Completes the sum of what this rank computed; `sums` is valid from here to the next begin_step. When that is not all of the step, the
  /// blocks must have been summed over the ranks, into the first block, where this rank needs the sums.
  void end_step(Context& context);

  /// The blocks that `count` micro-batches from `first` on are added up to.
  static std::vector<GradientBlock> blocks_of(const MicroBatches& micro_batches, Order order);
  /// The blocks of this step, once its last micro-batch runs: all elements of all parameters, which `offsets` says where to find.
  [[nodiscard]] std::vector<Tensor> block_sums() const;
  /// Where each parameter begins in a block, and where the last ends.
  [[nodiscard]] const std::vector<std::int64_t>& offsets() const { return offsets_; }

  /// One tensor a parameter, in the order of the store.
  [[nodiscard]] std::span<const ConstTensor> sums() const { return sums_; }

 private:
  struct Buffer {
    Tensor flat;
    std::vector<Tensor> parts;
  };
  Buffer make_buffer(Context& context);
  [[nodiscard]] std::size_t siblings() const;
  void add_siblings(Context& context, std::int64_t begin, std::int64_t end);

  const ParameterStore* store_ = nullptr;
  Order order_ = Order::Pairwise;
  MicroBatches micro_batches_;
  std::vector<std::int64_t> offsets_;
  std::vector<Buffer> buffers_;
  std::vector<int> free_;              // buffers not in use
  std::vector<GradientBlock> blocks_;  // sums that wait for their neighbour, in order
  int current_ = 0;                    // the buffer the running micro-batch writes to
  std::int64_t finished_ = 0;          // micro-batches of this step
  std::vector<bool> written_;          // parameters that hold a value in the current buffer
  std::vector<ConstTensor> sums_;
  Ready ready_;
  std::int64_t complete_ = 0;  // of the running micro-batch, elements from here on are added to its siblings
};

}  // namespace oxrse::nn

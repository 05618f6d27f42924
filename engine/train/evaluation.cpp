#include "engine/train/evaluation.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/ops/elementwise.h"

namespace oxrse::train {

Evaluation evaluate(Context& context, const nn::ParameterStore& parameters, const nn::Model& model, const BatchShape& shape,
                    const io::Dataset* data, std::int64_t samples, comm::Communicator* ranks) {
  const std::int64_t batches = (samples + shape.rows - 1) / shape.rows;
  const std::int64_t every = ranks == nullptr ? 1 : ranks->size(), turn = ranks == nullptr ? 0 : ranks->rank();
  Evaluation result;
  std::vector<double> sums(static_cast<std::size_t>(batches) + 1, 0);  // of the batches, then the valid tokens; 0 where others computed
  for (std::int64_t b = turn; b < batches; b += every) {
    const ArenaScope scope(*context.arena);
    const Tensor loss = context.arena->make(DType::F64, {1}, Memory::Workspace);
    ops::run(context, ops::Fill{.y = loss, .value = 0});
    const std::int64_t first = b * shape.rows;
    const nn::Batch batch = read_batch(context, shape, data, first, std::min(shape.rows, samples - first), result.valid_tokens);
    model.evaluate({.context = context, .parameters = parameters, .batch = batch}, loss);
    if (context.planning()) continue;
    context.wait();
    sums[static_cast<std::size_t>(b)] = *loss.data<double>();
  }
  if (context.planning()) return result;
  sums.back() = static_cast<double>(result.valid_tokens);
  if (ranks != nullptr) ranks->all_reduce(sums, "evaluation");
  result.valid_tokens = static_cast<std::int64_t>(sums.back());
  const double sum = std::accumulate(sums.begin(), sums.end() - 1, 0.0);
  result.loss = result.valid_tokens > 0 ? sum / static_cast<double>(result.valid_tokens) : std::numeric_limits<double>::quiet_NaN();
  return result;
}

}  // namespace oxrse::train

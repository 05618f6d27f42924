#include "engine/train/evaluation.h"

#include <algorithm>

#include "engine/ops/elementwise.h"

namespace oxrse::train {

Evaluation evaluate(Context& context, const nn::ParameterStore& parameters, const nn::Model& model, const BatchShape& shape,
                    const io::Dataset* data, std::int64_t samples) {
  Evaluation result;
  double sum = 0;
  for (std::int64_t first = 0; first < samples; first += shape.rows) {
    const ArenaScope scope(*context.arena);
    const Tensor loss = context.arena->make(DType::F64, {1}, Memory::Workspace);
    ops::run(context, ops::Fill{.y = loss, .value = 0});
    const nn::Batch batch = read_batch(context, shape, data, first, std::min(shape.rows, samples - first), result.valid_tokens);
    model.evaluate({.context = context, .parameters = parameters, .batch = batch}, loss);
    if (!context.planning()) sum += *loss.data<double>();
  }
  result.loss = result.valid_tokens > 0 ? sum / static_cast<double>(result.valid_tokens) : 0;
  return result;
}

}  // namespace oxrse::train

#include "engine/train/batches.h"

#include <algorithm>
#include <span>

namespace oxrse::train {

nn::Batch read_batch(Context& context, const BatchShape& shape, const io::Dataset* data, std::int64_t first, std::int64_t rows,
                     std::int64_t& valid_tokens) {
  const std::int64_t T = shape.length;
  const auto make = [&] { return context.arena->make(DType::I32, {rows * T}, Memory::Workspace); };
  const Tensor tokens = make(), targets = make(), positions = make(), document_start = make();
  for (std::int64_t row = 0; row < rows && !context.planning(); ++row) {
    const auto line = [&](const Tensor& t) { return std::span(t.data<std::int32_t>() + row * T, static_cast<std::size_t>(T)); };
    data->read(first + row, {line(tokens), line(targets), line(positions), line(document_start)});
    valid_tokens += std::ranges::count_if(line(targets), [](std::int32_t t) { return t >= 0; });
  }
  return {.rows = rows,
          .length = T,
          .tokens = tokens,
          .targets = targets,
          .positions = positions,
          .document_start = shape.documents ? ConstTensor(document_start.reshape({rows, T})) : ConstTensor(),
          .first_row = shape.global_batch > 0 ? first % shape.global_batch : first};
}

}  // namespace oxrse::train

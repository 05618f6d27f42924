#include "engine/train/batches.h"

#include <algorithm>
#include <span>
#include <vector>

namespace oxrse::train {
namespace {

/// Samples in memory of the host, (rows, T) each: the tensors may be elsewhere.
struct HostBatch {
  std::vector<std::int32_t> tokens, targets, positions, document_start;

  HostBatch(const io::Dataset& data, std::int64_t first, std::int64_t rows, std::int64_t length) {
    const auto all = static_cast<std::size_t>(rows * length), one = static_cast<std::size_t>(length);
    for (auto* numbers : {&tokens, &targets, &positions, &document_start}) numbers->resize(all);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto line = [&](std::vector<std::int32_t>& of) { return std::span(of).subspan(static_cast<std::size_t>(row) * one, one); };
      data.read(first + row, {line(tokens), line(targets), line(positions), line(document_start)});
    }
  }
};

}  // namespace

nn::Batch read_batch(Context& context, const BatchShape& shape, const io::Dataset* data, std::int64_t first, std::int64_t rows,
                     std::int64_t& valid_tokens) {
  const std::int64_t T = shape.length;
  const auto make = [&] { return context.arena->make(DType::I32, {rows * T}, Memory::Workspace); };
  const Tensor tokens = make(), targets = make(), positions = make(), document_start = make();
  if (!context.planning()) {
    const HostBatch read(*data, first, rows, T);
    context.write(tokens, read.tokens.data());
    context.write(targets, read.targets.data());
    context.write(positions, read.positions.data());
    context.write(document_start, read.document_start.data());
    valid_tokens += std::ranges::count_if(read.targets, [](std::int32_t t) { return t >= 0; });
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

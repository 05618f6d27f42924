#pragma once

#include <cstdint>

#include "engine/core/context.h"
#include "engine/nn/pass.h"
#include "io/data/dataset.h"

namespace oxrse::train {

/// How samples become batches.
struct BatchShape {
  std::int64_t length = 0;        // T, tokens of a sample
  std::int64_t rows = 0;          // B, samples of a micro-batch
  std::int64_t global_batch = 0;  // samples of a step
  bool documents = false;         // attention stays inside documents
};

/// The `rows` samples from number `first` on, in tensors of the context's arena; counts the targets that are not ignored. `data` is
/// absent when planning.
nn::Batch read_batch(Context& context, const BatchShape& shape, const io::Dataset* data, std::int64_t first, std::int64_t rows,
                     std::int64_t& valid_tokens);

}  // namespace oxrse::train

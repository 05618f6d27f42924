#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "engine/nn/model.h"
#include "engine/train/batches.h"

namespace oxrse::train {

/// Loss over an evaluation set.
struct Evaluation {
  double loss = 0;  // nats, mean over the valid target tokens; NaN where there is none
  std::int64_t valid_tokens = 0;
};

/// Mean loss over samples [0, samples) of `data` (absent when planning), each once, shape.rows at a time. Ranks, where there are
/// several, take turns with the batches; all get the same result, whatever their number.
Evaluation evaluate(Context& context, const nn::ParameterStore& parameters, const nn::Model& model, const BatchShape& shape,
                    const io::Dataset* data, std::int64_t samples, comm::Communicator* ranks = nullptr);

}  // namespace oxrse::train

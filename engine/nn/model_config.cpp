#include "engine/nn/model_config.h"

#include "engine/core/error.h"

namespace oxrse::nn {

ModelConfig ModelConfig::resolved() const {
  ModelConfig r = *this;
  if (r.kv_heads == 0) r.kv_heads = r.heads;
  if (r.head_width == 0) {
    require(r.width % r.heads == 0, "model.width {} is not a multiple of model.heads {}: set model.head_width", r.width, r.heads);
    r.head_width = r.width / r.heads;
  }
  if (r.mlp_width == 0) r.mlp_width = 4 * r.width;
  require(r.heads % r.kv_heads == 0, "model.heads {} is not a multiple of model.kv_heads {}", r.heads, r.kv_heads);
  require(r.position != "rope" || r.head_width % 2 == 0, "model.head_width {} is odd: rotary positions rotate pairs", r.head_width);
  require(r.vocab > 0, "model.vocab is 0 and no tokenizer says how large the vocabulary is");
  return r;
}

}  // namespace oxrse::nn

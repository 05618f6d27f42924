#pragma once

#include <cstdint>
#include <string>

#include "engine/nn/layers.h"

namespace oxrse::nn {

/// The keys and values of the positions decoded so far, for one sequence and one layer.
struct KeyValueCache {
  Tensor qkv;  // (context, (H+2K) D): the projections as the layer makes them, so that they can be written in place
  Tensor qk;   // (context, (H+K) D): normalised queries and keys, with qk_norm only
};

/// y = x + dropout(attention(norm(x))): the first half of a block.
class AttentionLayer {
 public:
  /// What backward needs, besides x.
  struct Saved {
    Norm::Saved norm;
    Tensor normed;          // (N, C)
    Tensor qkv;             // (N, (H+2K) D)
    Tensor qk;              // (N, (H+K) D), with qk_norm only
    Tensor q_rstd, k_rstd;  // (N, H), (N, K), with qk_norm only
    Tensor heads;           // (N, H D)
    Tensor lse;             // (B, H, T)
  };

  AttentionLayer() = default;
  AttentionLayer(ParameterStore& store, const std::string& name, const ModelConfig& config);

  /// An absent y skips the output projection: backward only needs what is saved.
  Saved forward(const Pass& pass, Tensor y, ConstTensor x) const;
  /// d enters as the gradient of y and leaves as the gradient of x.
  void backward(const Pass& pass, Tensor d, ConstTensor x, const Saved& saved) const;

  /// One sequence whose first tokens are in the cache: attends over cache and new rows, and adds the new rows to the cache.
  void decode(const Pass& pass, Tensor y, ConstTensor x, const KeyValueCache& cache, std::int64_t cached) const;
  [[nodiscard]] KeyValueCache make_cache(const Pass& pass) const;

 private:
  struct Heads {
    Tensor q, k, v;  // (N, H, D), (N, K, D), (N, K, D): views
  };
  [[nodiscard]] Heads split(Tensor qkv, Tensor qk) const;
  void position_heads(const Pass& pass, Tensor qkv, Tensor qk, Tensor q_rstd, Tensor k_rstd) const;

  ModelConfig config_;
  Norm norm_;
  Linear qkv_;
  ResidualLinear out_;
  ParameterId q_norm_, k_norm_;
};

}  // namespace oxrse::nn

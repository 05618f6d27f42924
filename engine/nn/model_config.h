#pragma once

#include <cstdint>
#include <string>

#include "engine/core/config_field.h"

namespace oxrse::nn {

/// The shape of a decoder. Letters as everywhere: L layers, C width, H heads, K key/value heads, D head width, I MLP width,
/// V vocabulary, T context.
struct ModelConfig {
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 0;
  std::int64_t head_width = 0;
  std::int64_t context = 1024;
  std::int64_t vocab = 50257;
  std::string norm = "layernorm";
  double norm_eps = 1e-5;
  std::string position = "learned";
  double rope_theta = 10000;
  std::string mlp = "gelu";
  std::int64_t mlp_width = 0;
  bool bias = true;
  bool qkv_bias = false;
  bool tied_embeddings = true;
  bool qk_norm = false;
  std::int64_t window = 0;
  double dropout = 0;

  static constexpr double kWidest = 1 << 24;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.layers, Field{.key = "layers", .meaning = "decoder blocks (L)", .min = 1, .max = 10000});
    visit(self.width, Field{.key = "width", .meaning = "width of the residual stream (C)", .min = 1, .max = kWidest});
    visit(self.heads, Field{.key = "heads", .meaning = "query heads (H)", .min = 1, .max = 65536});
    visit(self.kv_heads, Field{.key = "kv_heads", .meaning = "key/value heads (K), a divisor of heads; 0: as many as heads", .min = 0});
    visit(self.head_width, Field{.key = "head_width", .meaning = "width of a head (D); 0: width / heads", .min = 0, .max = 65536});
    visit(self.context, Field{.key = "context", .meaning = "longest sequence", .unit = "tokens", .min = 1, .max = 2147483647});
    visit(self.vocab, Field{.key = "vocab", .meaning = "vocabulary size (V); 0: that of the tokenizer", .min = 0, .max = 2147483647});
    visit(self.norm,
          Field{.key = "norm", .meaning = "normalisation before attention, MLP and output", .choices = {"layernorm", "rmsnorm"}});
    visit(self.norm_eps, Field{.key = "norm_eps", .meaning = "added to the variance", .min = 0});
    visit(self.position, Field{.key = "position", .meaning = "position information", .choices = {"learned", "rope", "none"}});
    visit(self.rope_theta, Field{.key = "rope_theta", .meaning = "base of the rotary wavelengths", .min = 0, .above_min = true});
    visit(self.mlp, Field{.key = "mlp", .meaning = "activation of the MLP; gelu is the tanh form", .choices = {"gelu", "swiglu"}});
    visit(self.mlp_width, Field{.key = "mlp_width", .meaning = "width of the MLP (I); 0: 4 * width", .min = 0, .max = kWidest});
    visit(self.bias, Field{.key = "bias", .meaning = "biases of all linear layers and of LayerNorm"});
    visit(self.qkv_bias, Field{.key = "qkv_bias", .meaning = "biases of query, key and value even where bias is false"});
    visit(self.tied_embeddings, Field{.key = "tied_embeddings", .meaning = "the output layer shares the token embedding"});
    visit(self.qk_norm, Field{.key = "qk_norm", .meaning = "RMSNorm over each query and key head before the rotation"});
    visit(self.window, Field{.key = "window", .meaning = "attend to this many latest positions; 0: all", .unit = "tokens", .min = 0});
    visit(self.dropout,
          Field{.key = "dropout", .meaning = "dropout of embedding, attention output and MLP output", .min = 0, .max = 0.999});
  }

  /// Fills the 0 defaults that follow from other keys and checks what no single key can say; an Error names the keys.
  [[nodiscard]] ModelConfig resolved() const;
};

}  // namespace oxrse::nn

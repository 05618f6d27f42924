#include "engine/nn/attention.h"

#include <cmath>

#include "engine/ops/attention.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/rope.h"

namespace oxrse::nn {
namespace {

/// (N, X, D) as (B, T, X, D).
template <class View>
View by_sequence(const View& heads, std::int64_t length) {
  return heads.split(0, length);
}

}  // namespace

AttentionLayer::AttentionLayer(ParameterStore& store, const std::string& name, const ModelConfig& config) : config_(config) {
  const std::string attention = name + ".attention";
  const auto& [C, H, K, D] = std::tuple(config.width, config.heads, config.kv_heads, config.head_width);
  norm_ = Norm(store, name + ".norm1", C, config);
  qkv_ = Linear(store, attention + ".qkv", C, (H + 2 * K) * D, config.bias || config.qkv_bias);
  if (config.qk_norm) {
    q_norm_ = store.add(attention + ".q_norm.weight", {D}, {.mean = 1});
    k_norm_ = store.add(attention + ".k_norm.weight", {D}, {.mean = 1});
  }
  out_ = ResidualLinear(store, attention + ".out", H * D, config);
}

AttentionLayer::Heads AttentionLayer::split(Tensor qkv, Tensor qk) const {
  const auto& [H, K, D] = std::tuple(config_.heads, config_.kv_heads, config_.head_width);
  const Tensor positioned = qk.present() ? qk : qkv;
  return {positioned.slice(1, 0, H * D).split(1, D), positioned.slice(1, H * D, (H + K) * D).split(1, D),
          qkv.slice(1, (H + K) * D, (H + 2 * K) * D).split(1, D)};
}

void AttentionLayer::position_heads(const Pass& pass, Tensor qkv, Tensor qk, Tensor q_rstd, Tensor k_rstd) const {
  const Heads to = split(qkv, qk);
  if (config_.qk_norm) {
    const Heads from = split(qkv, {});
    ops::run(pass.context, ops::RmsNorm{.y = to.q, .rstd = q_rstd, .x = from.q, .w = pass.gather(q_norm_), .eps = config_.norm_eps});
    ops::run(pass.context, ops::RmsNorm{.y = to.k, .rstd = k_rstd, .x = from.k, .w = pass.gather(k_norm_), .eps = config_.norm_eps});
  }
  if (pass.rope_table.present()) {
    ops::run(pass.context, ops::Rope{.x = to.q, .positions = pass.batch.positions, .table = pass.rope_table});
    ops::run(pass.context, ops::Rope{.x = to.k, .positions = pass.batch.positions, .table = pass.rope_table});
  }
}

AttentionLayer::Saved AttentionLayer::forward(const Pass& pass, Tensor y, ConstTensor x) const {
  const auto& [C, H, K, D] = std::tuple(config_.width, config_.heads, config_.kv_heads, config_.head_width);
  const std::int64_t N = pass.batch.count(), B = pass.batch.rows, T = pass.batch.length;
  Saved saved;
  saved.normed = pass.make({N, C});
  saved.norm = norm_.forward(pass, saved.normed, x);
  saved.qkv = pass.make({N, (H + 2 * K) * D});
  qkv_.forward(pass, saved.qkv, saved.normed);
  if (config_.qk_norm) {
    saved.qk = pass.make({N, (H + K) * D});
    saved.q_rstd = pass.make_statistics({N, H});
    saved.k_rstd = pass.make_statistics({N, K});
  }
  position_heads(pass, saved.qkv, saved.qk, saved.q_rstd, saved.k_rstd);
  saved.heads = pass.make({N, H * D});
  saved.lse = pass.make_statistics({B, H, T});
  const auto [q, k, v] = split(saved.qkv, saved.qk);
  ops::run(pass.context, ops::Attention{.o = by_sequence(saved.heads.split(1, D), T),
                                        .lse = saved.lse,
                                        .q = by_sequence(q, T),
                                        .k = by_sequence(k, T),
                                        .v = by_sequence(v, T),
                                        .document_start = pass.batch.document_start,
                                        .scale = 1 / std::sqrt(static_cast<double>(D)),
                                        .window = config_.window});
  if (y.present()) out_.forward(pass, y, saved.heads, x);
  return saved;
}

void AttentionLayer::backward(const Pass& pass, Tensor d, ConstTensor x, const Saved& saved) const {
  const auto& [C, H, K, D] = std::tuple(config_.width, config_.heads, config_.kv_heads, config_.head_width);
  const std::int64_t N = pass.batch.count(), B = pass.batch.rows, T = pass.batch.length;
  const ArenaScope scope(*pass.context.arena);
  const Tensor d_heads = pass.make({N, H * D}, Memory::Workspace);
  out_.backward(pass, d_heads, d, saved.heads);

  const Tensor d_qkv = pass.make({N, (H + 2 * K) * D}, Memory::Workspace);
  const auto [q, k, v] = split(saved.qkv, saved.qk);
  const auto [dq, dk, dv] = split(d_qkv, {});
  ops::run(pass.context, ops::Attention::Backward{.dq = by_sequence(dq, T),
                                                  .dk = by_sequence(dk, T),
                                                  .dv = by_sequence(dv, T),
                                                  .delta = pass.make_statistics({B, H, T}, Memory::Workspace),
                                                  .d_o = by_sequence(d_heads.split(1, D), T),
                                                  .o = by_sequence(saved.heads.split(1, D), T),
                                                  .lse = saved.lse,
                                                  .q = by_sequence(q, T),
                                                  .k = by_sequence(k, T),
                                                  .v = by_sequence(v, T),
                                                  .document_start = pass.batch.document_start,
                                                  .scale = 1 / std::sqrt(static_cast<double>(D)),
                                                  .window = config_.window});
  if (pass.rope_table.present()) {
    ops::run(pass.context, ops::Rope{.x = dq, .positions = pass.batch.positions, .table = pass.rope_table, .inverse = true});
    ops::run(pass.context, ops::Rope{.x = dk, .positions = pass.batch.positions, .table = pass.rope_table, .inverse = true});
  }
  if (config_.qk_norm) {
    const Heads raw = split(saved.qkv, {});
    const auto norm_backward = [&](Tensor gradient, ConstTensor input, ConstTensor rstd, ParameterId weight) {
      const auto dw = pass.gradients->target(weight);
      ops::run(pass.context, ops::RmsNorm::Backward{.dx = gradient,
                                                    .dw = dw.sum,
                                                    .dy = gradient,
                                                    .x = input,
                                                    .w = pass.gather(weight),
                                                    .rstd = rstd,
                                                    .to_dx = Write::Assign,
                                                    .to_dw = dw.write});
    };
    norm_backward(dq, raw.q, saved.q_rstd, q_norm_);
    norm_backward(dk, raw.k, saved.k_rstd, k_norm_);
  }
  const Tensor d_normed = pass.make({N, C}, Memory::Workspace);
  qkv_.backward(pass, d_normed, d_qkv, saved.normed);
  norm_.backward(pass, d, d_normed, x, saved.norm);
}

KeyValueCache AttentionLayer::make_cache(const Pass& pass) const {
  const auto& [H, K, D] = std::tuple(config_.heads, config_.kv_heads, config_.head_width);
  KeyValueCache cache{pass.make({config_.context, (H + 2 * K) * D}), {}};
  if (config_.qk_norm) cache.qk = pass.make({config_.context, (H + K) * D});
  return cache;
}

void AttentionLayer::decode(const Pass& pass, Tensor y, ConstTensor x, const KeyValueCache& cache, std::int64_t cached) const {
  const auto& [C, H, K, D] = std::tuple(config_.width, config_.heads, config_.kv_heads, config_.head_width);
  const std::int64_t T = pass.batch.length, S = cached + T;
  const ArenaScope scope(*pass.context.arena);
  const Tensor normed = pass.make({T, C});
  norm_.forward(pass, normed, x);
  const Tensor new_qkv = cache.qkv.slice(0, cached, S);
  const Tensor new_qk = config_.qk_norm ? cache.qk.slice(0, cached, S) : Tensor();
  qkv_.forward(pass, new_qkv, normed);
  position_heads(pass, new_qkv, new_qk, config_.qk_norm ? pass.make_statistics({T, H}) : Tensor(),
                 config_.qk_norm ? pass.make_statistics({T, K}) : Tensor());
  const Tensor heads = pass.make({T, H * D});
  const Heads all = split(cache.qkv.slice(0, 0, S), config_.qk_norm ? cache.qk.slice(0, 0, S) : Tensor());
  ops::run(pass.context, ops::Attention{.o = by_sequence(heads.split(1, D), T),
                                        .lse = pass.make_statistics({1, H, T}),
                                        .q = by_sequence(split(new_qkv, new_qk).q, T),
                                        .k = by_sequence(all.k, S),
                                        .v = by_sequence(all.v, S),
                                        .document_start = {},
                                        .scale = 1 / std::sqrt(static_cast<double>(D)),
                                        .window = config_.window});
  out_.forward(pass, y, heads, x);
}

}  // namespace oxrse::nn

#pragma once

#include "engine/ops/run.h"

namespace oxrse::ops {

/// o[b,t,h] = sum_s p[b,h,t,s] v[b,s,h/(H/K)],  p = softmax over the visible s of scale * <q[b,t,h], k[b,s,h/(H/K)]>
/// lse[b,h,t] = log sum_s exp(scale * <q, k>) over the visible s.
///
/// Query t stands at position t + S - T among the keys (the last query sees the last key). It sees key s when s is not after it,
/// within the last `window` positions (0: no limit), and not before document_start[b, t]. A row that sees nothing
/// gives o = 0 and lse = +inf. Computed block by block with a running maximum, so that no T x S matrix exists:
/// Dao et al., "FlashAttention", 2022.
struct Attention {
  static constexpr std::string_view name = "attention";
  Tensor o;                         // (B, T, H, D)
  Tensor lse;                       // (B, H, T) accumulator type
  ConstTensor q;                    // (B, T, H, D); q, k, v may be strided views of one buffer
  ConstTensor k;                    // (B, S, K, D)
  ConstTensor v;                    // (B, S, K, D)
  ConstTensor document_start = {};  // (B, T) i32: the first key that query t sees; optional
  double scale = 1;                 // usually 1/sqrt(D)
  std::int64_t window = 0;

  /// delta = rowsum(do * o);  p = exp(scale*<q,k> - lse);  dv = p^T do;  ds = p * (do v^T - delta);
  /// dq = scale * ds k;  dk = scale * ds^T q. Key/value gradients sum over the query heads of their group.
  struct Backward {
    static constexpr std::string_view name = "attention.backward";
    Tensor dq, dk, dv;   // as q, k, v; overwritten
    Tensor delta;        // (B, H, T) accumulator type, workspace
    ConstTensor d_o;     // (B, T, H, D)
    ConstTensor o, lse;  // from the forward pass
    ConstTensor q, k, v;
    ConstTensor document_start = {};
    double scale = 1;
    std::int64_t window = 0;
  };
};
Cost check(const Attention& op);
Cost check(const Attention::Backward& op);
std::string shape(const Attention& op);
std::string shape(const Attention::Backward& op);
void launch(Cpu& cpu, const Attention& op);
void launch(Cpu& cpu, const Attention::Backward& op);

}  // namespace oxrse::ops

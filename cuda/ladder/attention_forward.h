#pragma once

#include "cuda/kernels/attention.h"
#include "cuda/launch.h"

// What the rungs of attention's forward pass share. Scores are in base 2: their scale has log2(e) in it.
namespace oxrse::OXRSE_GPU::ladder {

inline constexpr float kUnseen = -std::numeric_limits<float>::infinity();

template <class T>
struct AttentionOperands {
  Heads<T> o;
  float* lse;
  Heads<const T> q, k, v;
  AttentionShape shape;
  float scale_log2;

  explicit AttentionOperands(const ops::Attention& op)
      : o(op.o), lse(op.lse.data<float>()), q(op.q), k(op.k), v(op.v), shape(op), scale_log2(static_cast<float>(op.scale) * kLog2E) {}

  __device__ std::int64_t kv_head(std::int64_t h) const { return h / (shape.heads / shape.kv_heads); }
  /// `maximum` and `sum`: of the row's scores and weights; a sum of 0 belongs to a query that sees nothing.
  __device__ void write_lse(std::int64_t b, std::int64_t h, int query, float maximum, float sum) const {
    lse[(b * shape.heads + h) * shape.t + query] = sum == 0 ? -kUnseen : (maximum + log2f(sum)) * kLn2;
  }
};

/// The maximum of the scores so far, and of the weights 2^(score - maximum) the sum so far.
struct OnlineSoftmax {
  float maximum = kUnseen, sum = 0;

  /// Takes the largest of some more scores; returns what everything that was added up so far has to be multiplied with.
  __device__ float raise(float score) {
    const float before = maximum;
    maximum = Larger()(score, before);
    const float factor = exp2_fast(before - base());
    sum *= factor;
    return factor;
  }
  __device__ float weight(float score) const { return exp2_fast(score - base()); }

 private:
  /// Nothing seen yet: any will do.
  [[nodiscard]] __device__ float base() const { return maximum == kUnseen ? 0.0F : maximum; }
};

/// Calls f(TypeTag<T>{}, std::integral_constant<int, kD>{}) with the type of q and the smallest width that the rungs have for its heads.
template <class F>
void visit_heads(const ops::Attention& op, F&& f) {
  const std::int64_t d = op.q.size(3);
  require(d <= 128, "attention: the rungs before the engine's kernel have heads of width up to 128, got {}", d);
  visit_compute(op.q.dtype(), [&](auto tag) {
    if (d <= 64) return f(tag, std::integral_constant<int, 64>{});
    f(tag, std::integral_constant<int, 128>{});
  });
}

}  // namespace oxrse::OXRSE_GPU::ladder

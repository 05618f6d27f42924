#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "cuda/instructions.h"
#include "cuda/launch.h"
#include "cuda/mma.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"
#include "engine/ops/attention.h"

// What the three kernels of attention share: tiles in shared memory and who sees whom.
namespace oxrse::OXRSE_GPU {

inline constexpr float kLog2E = 1.44269504088896340736F;
inline constexpr float kLn2 = 0.69314718055994530942F;
inline constexpr int kMmaRows = 16;

/// What a block may have on every GPU from sm_80 on: sm_86, sm_89 and sm_120 give the least ("CUDA C++ Programming Guide", compute
/// capabilities).
inline constexpr int kMostShared = 99 << 10;

/// Sizes for head widths up to kD. Every warp has 16 rows of the block's tile. Rows are padded by 16 bytes, so that eight of them start in
/// different banks. Tiles are smaller where kMostShared would not hold those that a kernel needs at once: three in the forward pass, four
/// in the backward pass.
template <class T, int kD>
struct AttentionTiles {
  static constexpr int kRows = sizeof(T) * kD > 512 ? 32 : 64;  // of the tile that a block owns
  static constexpr int kThreads = kRows / kMmaRows * kWarp;
  static constexpr int kStride = kD + 16 / static_cast<int>(sizeof(T));
  static constexpr int kPassing =
      4 * kRows * kStride * static_cast<int>(sizeof(T)) > kMostShared ? kRows / 2 : kRows;  // in the backward pass
  static constexpr std::size_t bytes(int rows) { return sizeof(T) * static_cast<std::size_t>(rows * kStride); }
};

/// The heads of a (B, T, H, D) tensor.
template <class T>
struct Heads {
  T* base = nullptr;
  std::int64_t batch_stride = 0, row_stride = 0, head_stride = 0;
  bool aligned = false;  // every row of every head starts at a multiple of 16 bytes

  Heads() = default;
  template <class Byte>
  explicit Heads(const BasicTensor<Byte>& t)
      : base(t.template data<std::remove_const_t<T>>()), batch_stride(t.stride(0)), row_stride(t.stride(1)), head_stride(t.stride(2)) {
    const std::int64_t strides = batch_stride | row_stride | head_stride;
    aligned = reinterpret_cast<std::uintptr_t>(base) % 16 == 0 && strides % kPack<T> == 0;
  }
  __device__ T* at(std::int64_t b, std::int64_t h) const { return base + b * batch_stride + h * head_stride; }
};

/// Sizes, and who sees whom.
struct AttentionShape {
  int t, s, heads, kv_heads, d;
  int window;
  const std::int32_t* document_start;  // (B, T) or null
  std::int64_t document_stride;

  template <class Op>
  explicit AttentionShape(const Op& op)
      : t(static_cast<int>(op.q.size(1))),
        s(static_cast<int>(op.k.size(1))),
        heads(static_cast<int>(op.q.size(2))),
        kv_heads(static_cast<int>(op.k.size(2))),
        d(static_cast<int>(op.q.size(3))),
        window(op.window < op.k.size(1) ? static_cast<int>(op.window) : 0),
        document_start(op.document_start.present() ? op.document_start.template data<std::int32_t>() : nullptr),
        document_stride(op.document_start.present() ? op.document_start.stride(0) : 0) {}
};

/// Keys [begin, end).
struct Visible {
  int begin, end;
};
/// The keys that a query sees; none by queries past the end.
__device__ inline Visible visible_to(const AttentionShape& shape, std::int64_t b, int query) {
  if (query >= shape.t) return {0, 0};
  const int position = query + shape.s - shape.t;
  Visible v{0, position + 1 < shape.s ? position + 1 : shape.s};
  if (shape.window > 0 && position - shape.window + 1 > v.begin) v.begin = position - shape.window + 1;
  if (shape.document_start != nullptr) v.begin = max(v.begin, shape.document_start[b * shape.document_stride + query]);
  return v.begin < v.end ? v : Visible{0, 0};
}

struct Smaller {
  __device__ int operator()(int a, int b) const { return a < b ? a : b; }
};

/// The keys that some of `rows` queries see, in every lane. All lanes must come.
__device__ inline Visible visible_to_some(const AttentionShape& shape, std::int64_t b, int first, int rows) {
  Visible all{std::numeric_limits<int>::max(), 0};
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < rows; i += kWarp) {
    const Visible v = visible_to(shape, b, first + i);
    if (v.begin == v.end) continue;
    all = {Smaller()(all.begin, v.begin), Larger()(all.end, v.end)};
  }
  return {reduce_warp(all.begin, Smaller()), reduce_warp(all.end, Larger())};
}

/// Copies rows [first, first + kRows) of a head to shared memory; 0 past the head's rows and width. Complete after a wait and a barrier.
template <class T, int kD, int kRows>
__device__ void load_tile(T* tile, const T* head, std::int64_t row_stride, bool aligned, int first, int count, int d) {
  using Tiles = AttentionTiles<T, kD>;
  constexpr int kPacks = kD / kPack<T>;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += static_cast<int>(blockDim.x)) {
    const int row = i / kPacks, c = i % kPacks * kPack<T>;
    const int valid = first + row < count ? max(0, min(kPack<T>, d - c)) : 0;
    const T* from = head + (valid > 0 ? (first + row) * row_stride + c : 0);
    T* to = tile + row * Tiles::kStride + c;
    if (aligned) {
      copy_async(to, from, valid * static_cast<int>(sizeof(T)));
    } else {
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) to[j] = j < valid ? from[j] : narrow<T>(0.0F);
    }
  }
}

/// Calls f(std::integral_constant<int, kD>{}) with the smallest width that the kernels have for heads of width d.
template <class F>
void visit_width(std::int64_t d, F&& f) {
  if (d <= 32) return f(std::integral_constant<int, 32>{});
  if (d <= 64) return f(std::integral_constant<int, 64>{});
  if (d <= 128) return f(std::integral_constant<int, 128>{});
  require(d <= kWidestHeads, "attention: the CUDA kernels have heads of width up to {}, got {}: use the CPU", kWidestHeads, d);
  return f(std::integral_constant<int, kWidestHeads>{});
}

// The two halves of backward.
void launch_attention_dq(Cuda& cuda, const ops::Attention::Backward& op);
void launch_attention_dkv(Cuda& cuda, const ops::Attention::Backward& op);

/// Adds to `sums` the products of the warp's 16 rows of tile `a`, from `row` on, with each of kRows rows of tile `b`, over kD columns, and
/// to `sums2` those of `a2` and `b2`. In turn, because one after the other takes more registers.
template <class T, int kD, int kRows>
__device__ __forceinline__ void multiply_two(float (&sums)[kRows / 8][4], const T* a, const T* b, float (&sums2)[kRows / 8][4], const T* a2,
                                             const T* b2, int row) {
  using M = Mma<T>;
  constexpr int kStride = AttentionTiles<T, kD>::kStride;
#pragma unroll M::kUnroll
  for (int k = 0; k < kD; k += 16) {
    const auto x = M::load_a(a, kStride, row, k);
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) M::multiply(sums[2 * n], sums[2 * n + 1], x, M::load_b(b, kStride, n * 16, k));
    const auto x2 = M::load_a(a2, kStride, row, k);
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) M::multiply(sums2[2 * n], sums2[2 * n + 1], x2, M::load_b(b2, kStride, n * 16, k));
  }
}

}  // namespace oxrse::OXRSE_GPU

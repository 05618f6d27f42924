#pragma once

#include <cstdint>

#include "cuda/instructions.h"

namespace oxrse::OXRSE_GPU {

/// Products of a warp: C (16 x 16, f32) += A (16 x 16) B (16 x 16), with A and B from shared memory.
///
/// C is two arrays of four numbers, for its left and right eight columns. Lane l holds of each, in this order, row l/4 columns 2(l%4) and
/// the next, then the same of row l/4 + 8 ("PTX ISA", fragments of mma.m16n8k16). Rows of tiles in shared memory start at multiples of 16
/// bytes.
template <class T>
struct Mma {
  static constexpr int kUnroll = 16;  // steps of 16 along the dimension that is summed over

  struct A {
    std::uint32_t r[4];
  };
  struct B {
    std::uint32_t r[4];  // two numbers of k by eight columns, then the next eight columns
  };

  /// Rows [row, row + 16), columns [k, k + 16) of a tile.
  static __device__ A load_a(const T* tile, int stride, int row, int k) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    A a;
    load_matrices(a.r, tile + (row + lane % 16) * stride + k + lane / 16 * 8);
    return a;
  }
  /// B[k][n] = tile[n][k]
  static __device__ B load_b(const T* tile, int stride, int n, int k) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, matrix = lane / 8;
    B b;
    load_matrices(b.r, tile + (n + lane % 8 + matrix / 2 * 8) * stride + k + matrix % 2 * 8);
    return b;
  }
  /// B[k][n] = tile[k][n]
  static __device__ B load_b_by_rows(const T* tile, int stride, int k, int n) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, matrix = lane / 8;
    B b;
    load_matrices_transposed(b.r, tile + (k + lane % 8 + matrix % 2 * 8) * stride + n + matrix / 2 * 8);
    return b;
  }
  /// Columns [16 * k, 16 * k + 16) of a result as the left operand of the next product.
  template <int kTiles>
  static __device__ A from_result(const float (&c)[kTiles][4], int k) {
    const float(&left)[4] = c[2 * k], (&right)[4] = c[2 * k + 1];
    return {{pack<T>(left[0], left[1]), pack<T>(left[2], left[3]), pack<T>(right[0], right[1]), pack<T>(right[2], right[3])}};
  }
  static __device__ void multiply(float (&left)[4], float (&right)[4], const A& a, const B& b) {
    multiply_m16n8k16<T>(left, a.r, b.r);
    multiply_m16n8k16<T>(right, a.r, b.r + 2);
  }
};

/// The same in f32 without tensor cores, which would round to 10 bits.
template <>
struct Mma<float> {
  static constexpr int kUnroll = 1;  // a step is 128 multiplications: nvcc would take a minute

  struct A {
    float v[2][16];  // rows l/4 and l/4 + 8
  };
  struct B {
    const float* first;  // element (0, 2(l%4))
    int n_stride, k_stride;
  };

  static __device__ A load_a(const float* tile, int stride, int row, int k) {
    const float* first = tile + (row + static_cast<int>(threadIdx.x) % kWarp / 4) * stride + k;
    A a;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      a.v[0][i] = first[i];
      a.v[1][i] = first[8 * stride + i];
    }
    return a;
  }
  static __device__ B load_b(const float* tile, int stride, int n, int k) {
    return {tile + (n + static_cast<int>(threadIdx.x) % 4 * 2) * stride + k, stride, 1};
  }
  static __device__ B load_b_by_rows(const float* tile, int stride, int k, int n) {
    return {tile + k * stride + n + static_cast<int>(threadIdx.x) % 4 * 2, 1, stride};
  }
  template <int kTiles>
  static __device__ A from_result(const float (&c)[kTiles][4], int k) {
    // k is not known to the compiler, and registers have no addresses: so it is looked for.
    float left[4], right[4];
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        left[i] = n == 0 || n == k ? c[2 * n][i] : left[i];
        right[i] = n == 0 || n == k ? c[2 * n + 1][i] : right[i];
      }
    }
    const int quad = static_cast<int>(threadIdx.x) % kWarp / 4 * 4;
    A a;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float(&half)[4] = i < 8 ? left : right;
      a.v[0][i] = __shfl_sync(kAllLanes, half[i % 2], quad + i % 8 / 2);
      a.v[1][i] = __shfl_sync(kAllLanes, half[2 + i % 2], quad + i % 8 / 2);
    }
    return a;
  }
  static __device__ void multiply(float (&left)[4], float (&right)[4], const A& a, const B& b) {
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const float* row = b.first + k * b.k_stride;
      const float columns[4] = {row[0], row[b.n_stride], row[8 * b.n_stride], row[9 * b.n_stride]};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        left[2 * i] += a.v[i][k] * columns[0];
        left[2 * i + 1] += a.v[i][k] * columns[1];
        right[2 * i] += a.v[i][k] * columns[2];
        right[2 * i + 1] += a.v[i][k] * columns[3];
      }
    }
  }
};

}  // namespace oxrse::OXRSE_GPU

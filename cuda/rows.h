#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/instructions.h"
#include "engine/core/tensor.h"

namespace oxrse::OXRSE_GPU {

/// Numbers that a thread reads or writes at once: 16 bytes of T.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

/// The rows of an (N, C) or (N, H, C) tensor, numbered n * H + h; each row is contiguous, the rows may be strided. Absent: null.
template <class T>
struct Rows {
  T* base = nullptr;
  std::int64_t heads = 1, stride = 0, head_stride = 0, count = 0, columns = 0;
  bool aligned = true;  // every row starts at a multiple of 16 bytes

  Rows() = default;
  template <class Byte>
  explicit Rows(const BasicTensor<Byte>& t) {
    if (!t.present()) return;
    base = t.template data<std::remove_const_t<T>>();
    heads = t.rank() == 3 ? t.size(1) : 1;
    stride = t.stride(0);
    head_stride = t.rank() == 3 ? t.stride(1) : 0;
    count = t.size(0) * heads;
    columns = t.size(-1);
    const auto whole = [](std::int64_t elements) { return elements % kPack<T> == 0; };
    aligned = reinterpret_cast<std::uintptr_t>(base) % 16 == 0 && whole(stride) && whole(head_stride);
  }
  __device__ __forceinline__ T* operator[](std::int64_t row) const {
    if (heads == 1) return base + row * stride;
    return base + row / heads * stride + row % heads * head_stride;
  }
};

/// A vector as the only row.
template <class T>
Rows<const T> row_of(const ConstTensor& vector) {
  return Rows<const T>(vector.reshape({1, vector.count()}));
}

/// kPack numbers of T in the type that is computed with.
template <class T>
struct Pack {
  accumulator_t<T> v[kPack<T>];
};

/// Elements [c, c + kPack) of a row of `columns`; 0 past its end. One load of 16 bytes where the rows are `aligned`: the
/// numbers are the same.
template <class T>
__device__ __forceinline__ Pack<T> load(const T* row, std::int64_t c, std::int64_t columns, bool aligned) {
  Pack<T> result;
  if (aligned && c + kPack<T> <= columns) {
    const uint4 bits = *reinterpret_cast<const uint4*>(row + c);
    const T* x = reinterpret_cast<const T*>(&bits);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) result.v[i] = widen(x[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) result.v[i] = c + i < columns ? widen(row[c + i]) : accumulator_t<T>(0);
  }
  return result;
}

template <class T>
__device__ __forceinline__ void store(T* row, std::int64_t c, std::int64_t columns, bool aligned, const Pack<T>& pack) {
  if (aligned && c + kPack<T> <= columns) {
    uint4 bits;
    T* x = reinterpret_cast<T*>(&bits);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) x[i] = narrow<T>(pack.v[i]);
    *reinterpret_cast<uint4*>(row + c) = bits;
  } else {
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      if (c + i < columns) row[c + i] = narrow<T>(pack.v[i]);
    }
  }
}

/// Threads of a block that works on one row: one a pack, whole warps, at most `most`.
template <class T>
int threads_for_row(std::int64_t columns, int most = 256) {
  const std::int64_t packs = (columns + kPack<T> - 1) / kPack<T>;
  const std::int64_t warps = (packs + kWarp - 1) / kWarp;
  return static_cast<int>(warps < 1 ? 1 : warps * kWarp > most ? most / kWarp : warps) * kWarp;
}

/// Calls f(TypeTag<T>{}) with the C++ type of a tensor that GPUs compute in.
template <class F>
void visit_compute(DType type, F&& f) {
  switch (type) {
    case DType::F32: return f(TypeTag<float>{});
    case DType::BF16: return f(TypeTag<bf16>{});
    case DType::F16: return f(TypeTag<f16>{});
    default: fail("CUDA kernels compute in f32, bf16 and fp16, got {}: use the CPU", name_of(type));
  }
}

/// Calls f(c) for the packs of a row, from column c on, that are this thread's.
template <class T, class F>
__device__ __forceinline__ void for_packs(std::int64_t columns, F f) {
  for (std::int64_t c = std::int64_t{threadIdx.x} * kPack<T>; c < columns; c += std::int64_t{blockDim.x} * kPack<T>) f(c);
}

/// Calls f(c) for the columns of those packs.
template <class T, class F>
__device__ __forceinline__ void for_columns(std::int64_t columns, F f) {
  for_packs<T>(columns, [&](std::int64_t begin) {
    for (std::int64_t c = begin; c < begin + kPack<T> && c < columns; ++c) f(c);
  });
}

}  // namespace oxrse::OXRSE_GPU

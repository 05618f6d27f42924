#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/portable.h"
#include "engine/core/dtype.h"

// Every instruction that C++ has no word for, once as PTX and once for the emulation. Kernels contain no PTX.
namespace oxrse::OXRSE_GPU {

inline constexpr unsigned kAllLanes = 0xffffffffU;
inline constexpr int kWarp = 32;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }

#ifdef __CUDACC__

__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16U); }
__device__ __forceinline__ float widen(f16 x) { return __half2float(__ushort_as_half(x.bits)); }

/// The bits of a float.
__device__ __forceinline__ std::uint32_t bits_of(float x) { return __float_as_uint(x); }

/// `value` as a T, rounded once to nearest even.
template <class T, class From>
__device__ __forceinline__ T narrow(From value) {
  if constexpr (std::is_same_v<T, bf16>) {
    bf16 result;
    result.bits = std::is_same_v<From, double> ? __bfloat16_as_ushort(__double2bfloat16(value))
                                               : __bfloat16_as_ushort(__float2bfloat16_rn(static_cast<float>(value)));
    return result;
  } else if constexpr (std::is_same_v<T, f16>) {
    f16 result;
    result.bits = std::is_same_v<From, double> ? __half_as_ushort(__double2half(value))
                                               : __half_as_ushort(__float2half_rn(static_cast<float>(value)));
    return result;
  } else {
    return static_cast<T>(value);
  }
}

/// 2^x
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Four 8 x 8 matrices of 16-bit numbers from shared memory; see emulation/block.h for who holds what. `row`: 16-byte aligned.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// c (16 x 8, f32) += a (16 x 16) b (16 x 8) in T, by one warp.
template <class T>
__device__ __forceinline__ void multiply_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t* b) {
  if constexpr (std::is_same_v<T, bf16>) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

/// Starts a copy of 16 bytes to shared memory, of which those from `valid` on become 0. Both addresses: 16-byte aligned.
__device__ __forceinline__ void copy_async(void* to, const void* from, int valid) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(valid) : "memory");
}
/// Ends a group of copies of this thread.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all groups of this thread but the last kPending; others see the copies after a barrier.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

#else

inline float widen(bf16 x) { return static_cast<float>(x); }
inline float widen(f16 x) { return static_cast<float>(x); }

inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

template <class T, class From>
T narrow(From value) {
  if constexpr (sizeof(T) == 2 && std::is_same_v<From, double>) {
    // To a float first, and where that is not exact to the one with an odd last bit: rounding it again is rounding once.
    auto nearest = static_cast<float>(value);
    if (std::isfinite(nearest) && static_cast<double>(nearest) != value) {
      auto bits = std::bit_cast<std::uint32_t>(nearest);
      if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
      nearest = std::bit_cast<float>(bits | 1U);
    }
    return T(nearest);
  } else {
    return static_cast<T>(value);
  }
}

inline float exp2_fast(float x) { return std::exp2(x); }

inline void load_matrices(std::uint32_t (&r)[4], const void* row, bool transposed, const std::source_location& where) {
  std::array<std::uint16_t, 8> numbers;
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) fail("ldmatrix: a row must start at a multiple of 16 bytes");
  for (std::size_t i = 0; i < 8; ++i) numbers[i] = static_cast<const std::uint16_t*>(row)[i];
  const emulation::Fragment fragment = emulation::load_matrices(numbers, transposed, where);
  for (std::size_t i = 0; i < 4; ++i) r[i] = fragment[i];
}
inline void load_matrices(std::uint32_t (&r)[4], const void* row, const std::source_location& where = std::source_location::current()) {
  load_matrices(r, row, false, where);
}
inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row,
                                     const std::source_location& where = std::source_location::current()) {
  load_matrices(r, row, true, where);
}

template <class T>
void multiply_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t* b,
                       const std::source_location& where = std::source_location::current()) {
  const auto to_float = [](std::uint16_t bits) {
    T x;
    x.bits = bits;
    return static_cast<float>(x);
  };
  std::array<float, 4> sums = {c[0], c[1], c[2], c[3]};
  emulation::multiply_matrices(sums, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}, to_float, where);
  for (std::size_t i = 0; i < 4; ++i) c[i] = sums[i];
}

inline void copy_async(void* to, const void* from, int valid) { emulation::copy_async(to, from, valid); }
inline void commit_copies() { emulation::commit_copies(); }
template <int kPending>
void wait_for_copies() {
  emulation::wait_for_copies(kPending);
}

#endif

/// Two numbers of 16 bits in one register, `low` in the lower half.
template <class T>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  return narrow<T>(low).bits | static_cast<std::uint32_t>(narrow<T>(high).bits) << 16U;
}

}  // namespace oxrse::OXRSE_GPU

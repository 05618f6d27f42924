#pragma once

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "cuda/instructions.h"
#include "cuda/tensor_map.h"
#ifndef __CUDACC__
#include "cuda/emulation/hopper.h"
#endif

// The instructions of sm_90a: copies of boxes by the tensor memory accelerator, barriers that count them, and products of warpgroups. Once
// as PTX and once for the emulation, as in instructions.h.
namespace oxrse::OXRSE_GPU {

inline constexpr int kWarpgroup = 128;

/// A barrier in shared memory on which threads and bytes of copies arrive.
using Mbarrier = std::uint64_t;

/// The descriptor of a matrix of 16-bit numbers in shared memory whose rows are swizzled panels of 64 numbers, 128 bytes: eight rows are
/// 1024 bytes, a multiple of which they start at. `panel`: bytes from one panel to the next, where neighbours of a row are not what is
/// summed over. `address`: of its first number; 32 bytes further are the next 16 columns.
__device__ __forceinline__ std::uint64_t matrix_at(unsigned address, int panel = 16) {
  constexpr std::uint64_t kEightRows = 1024, kSwizzle128 = 1;
  return std::uint64_t{(address & 0x3ffffU) >> 4U} | static_cast<std::uint64_t>(panel >> 4) << 16U | (kEightRows >> 4U) << 32U |
         kSwizzle128 << 62U;
}

#ifdef __CUDACC__

/// Where something is in the window of shared memory.
__device__ __forceinline__ unsigned shared_address(const void* memory) { return static_cast<unsigned>(__cvta_generic_to_shared(memory)); }

/// For `threads` arrivals in each phase. Others may use it after make_mbarriers_seen and a barrier.
__device__ __forceinline__ void make_mbarrier(Mbarrier* barrier, int threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(threads) : "memory");
}
__device__ __forceinline__ void make_mbarriers_seen() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void arrive(Mbarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Arrives, and makes the phase wait for so many bytes too.
__device__ __forceinline__ void arrive_expecting(Mbarrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
/// Waits until the phase of this parity, 0 for the first, is over.
__device__ __forceinline__ void wait_for_phase(Mbarrier* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@over bra done;\n"  // not .uni: a thread may be told earlier than another of its warp
      "bra again;\n"
      "done:\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

/// Barrier `name`, 1 to 15, of `threads` threads of the block: waits for them, or only arrives.
__device__ __forceinline__ void wait_at(int name, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory"); }
__device__ __forceinline__ void arrive_at(int name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/// Starts the copy of a box of the map from (column, head, row, sample) on, to 1024-byte aligned shared memory, whose bytes arrive at the
/// barrier.
__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, int column, int head, int row, int sample, Mbarrier* barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(
                   shared_address(to)),
               "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(head), "r"(row), "r"(sample)
               : "memory");
}

/// Registers of every thread of the calling warpgroup from here on.
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Comes before every group of products: registers written before are seen by them.
__device__ __forceinline__ void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits for all groups of products but the last kPending ones.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// The compiler must not move uses of a result before the wait for it.
template <int kTiles>
__device__ __forceinline__ void keep_after_wait(float (&c)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c[n][i])::"memory");
  }
}

// Operands of the products below: accumulators in fours.
#define OXRSE_C4(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define OXRSE_C32(n) \
  OXRSE_C4(n), OXRSE_C4(n + 1), OXRSE_C4(n + 2), OXRSE_C4(n + 3), OXRSE_C4(n + 4), OXRSE_C4(n + 5), OXRSE_C4(n + 6), OXRSE_C4(n + 7)
#define OXRSE_FIRST_32                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
  "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define OXRSE_NEXT_32                                                                          \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define OXRSE_PRODUCT(type)                                                                                                               \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" OXRSE_FIRST_32 \
               ", " OXRSE_NEXT_32 "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                                        \
               : OXRSE_C32(0), OXRSE_C32(8)                                                                                               \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
#define OXRSE_PRODUCT_BY_ROWS_128(type)                                                                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" OXRSE_FIRST_32 \
               ", " OXRSE_NEXT_32 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"                                                        \
               : OXRSE_C32(0), OXRSE_C32(8)                                                                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define OXRSE_PRODUCT_BY_ROWS_64(type)                                                                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" OXRSE_FIRST_32 \
               "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"                                                                          \
               : OXRSE_C32(0)                                                                                                          \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

/// Starts c (64 x 128, f32) = or += A (64 x 16) B^T (128 x 16), both in shared memory, by a warpgroup. Of c a thread has what it has of
/// Mma's results: warp w of the warpgroup has rows 16 w and on.
template <class T>
__device__ __forceinline__ void start_product(float (&c)[16][4], std::uint64_t a, std::uint64_t b, bool accumulate) {
  if constexpr (std::is_same_v<T, bf16>) {
    OXRSE_PRODUCT("bf16");
  } else {
    OXRSE_PRODUCT("f16");
  }
}

/// Starts c (64 x 8 kTiles) += A (64 x 16) B (16 x 8 kTiles), with A in registers, as Mma has it, and the rows of B in shared memory.
template <class T, int kTiles>
__device__ __forceinline__ void start_product_by_rows(float (&c)[kTiles][4], const std::uint32_t (&a)[4], std::uint64_t b) {
  static_assert(kTiles == 8 || kTiles == 16);
  if constexpr (kTiles == 16 && std::is_same_v<T, bf16>) {
    OXRSE_PRODUCT_BY_ROWS_128("bf16");
  } else if constexpr (kTiles == 16) {
    OXRSE_PRODUCT_BY_ROWS_128("f16");
  } else if constexpr (std::is_same_v<T, bf16>) {
    OXRSE_PRODUCT_BY_ROWS_64("bf16");
  } else {
    OXRSE_PRODUCT_BY_ROWS_64("f16");
  }
}

#undef OXRSE_PRODUCT_BY_ROWS_64
#undef OXRSE_PRODUCT_BY_ROWS_128
#undef OXRSE_PRODUCT
#undef OXRSE_NEXT_32
#undef OXRSE_FIRST_32
#undef OXRSE_C32
#undef OXRSE_C4

#else

using Where = std::source_location;

inline unsigned shared_address(const void* memory) { return emulation::shared_address(memory); }

inline void make_mbarrier(Mbarrier* barrier, int threads) { emulation::make_mbarrier(barrier, threads); }
inline void make_mbarriers_seen() {}
inline void arrive(Mbarrier* barrier) { emulation::arrive(barrier); }
inline void arrive_expecting(Mbarrier* barrier, int bytes) { emulation::arrive_expecting(barrier, bytes); }
inline void wait_for_phase(Mbarrier* barrier, int parity, const Where& where = Where::current()) {
  emulation::wait_for_phase(barrier, parity, where);
}

inline void wait_at(int name, int threads, const Where& where = Where::current()) { emulation::barrier(name, threads, where); }
inline void arrive_at(int name, int threads) { emulation::arrive(name, threads); }

inline void copy_box(void* to, const TensorMap& map, int column, int head, int row, int sample, Mbarrier* barrier) {
  emulation::TensorBox box;
  std::memcpy(&box, map.bits, sizeof box);
  emulation::copy_box(to, box, {column, head, row, sample}, barrier);
}

template <int kRegisters>
void take_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}
template <int kRegisters>
void give_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}

inline void fence_products() { emulation::fence_products(); }
inline void commit_products() { emulation::commit_products(); }
template <int kPending>
void wait_for_products(const Where& where = Where::current()) {
  emulation::wait_for_products(kPending, where);
}
template <int kTiles>
void keep_after_wait(float (&/*c*/)[kTiles][4]) {}

template <class T>
float widen_bits(std::uint16_t bits) {
  T x;
  x.bits = bits;
  return static_cast<float>(x);
}

template <class T>
void start_product(float (&c)[16][4], std::uint64_t a, std::uint64_t b, bool accumulate) {
  emulation::start_product({.c = &c[0][0],
                            .columns = 128,
                            .accumulate = accumulate,
                            .a_in_registers = false,
                            .a = {},
                            .a_matrix = a,
                            .b_matrix = b,
                            .b_by_rows = false,
                            .widen = widen_bits<T>});
}
template <class T, int kTiles>
void start_product_by_rows(float (&c)[kTiles][4], const std::uint32_t (&a)[4], std::uint64_t b) {
  emulation::start_product({.c = &c[0][0],
                            .columns = 8 * kTiles,
                            .accumulate = true,
                            .a_in_registers = true,
                            .a = {a[0], a[1], a[2], a[3]},
                            .a_matrix = 0,
                            .b_matrix = b,
                            .b_by_rows = true,
                            .widen = widen_bits<T>});
}

#endif

}  // namespace oxrse::OXRSE_GPU

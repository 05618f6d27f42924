#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string_view>

// Runs kernels without a GPU: one block after the other, every CUDA thread of a block as a fiber on the calling thread. Threads go on in
// an order drawn from a seed until they wait for others; so a missing barrier gives wrong numbers instead of none. What the hardware
// leaves undefined is an Error here that names the kernel, the block and the threads.
struct CUstream_st;

namespace oxrse::emulation {

inline constexpr int kWarp = 32;

/// Limits of sm_90 (CUDA C++ programming guide, "Compute capabilities").
inline constexpr unsigned kMostThreads = 1024;
inline constexpr std::size_t kMostShared = 227 * 1024;
inline constexpr unsigned kMostBlocksX = 2147483647;
inline constexpr unsigned kMostBlocksYZ = 65535;

struct Shape {
  unsigned x = 1, y = 1, z = 1;
};

struct Launch {
  std::string_view kernel;  // for errors
  Shape grid;
  unsigned threads = 1;     // of a block, in one dimension
  std::size_t shared = 0;   // bytes of shared memory
  std::uint64_t order = 0;  // seed of the order of blocks and threads; 0: ascending
};

/// Runs `thread` once for every thread of every block; built-ins are set when it is called. An Error when the launch exceeds a limit,
/// when threads wait for each other forever or meet at different barriers, when a thread leaves asynchronous copies behind that nobody
/// waited for, and when something was written next to the shared memory.
void run(const Launch& launch, const std::function<void()>& thread);

/// Enqueues what is to be done when all that was enqueued before is done: cuda/emulation/stand_in.h has the streams.
void enqueue(CUstream_st& stream, std::function<void()> work);

// From here on: called by the threads of a block.

/// The block's shared memory, aligned to 128 bytes. Every byte is 0xff before the block starts: NaN in every floating type.
void* shared_memory();

/// Waits for all threads of the block that have not ended. All must come to the same place in the code.
void barrier(const std::source_location& where);

/// The lane of the calling thread.
int lane();

// Collectives of a warp: wait for all lanes of `mask` that have not ended; all must come to the same place with the same mask.
void sync_warp(unsigned mask, const std::source_location& where);
std::uint64_t shuffle_bits(unsigned mask, std::uint64_t value, int source, const std::source_location& where);
unsigned ballot(unsigned mask, bool predicate, const std::source_location& where);

template <class T>
T shuffle(unsigned mask, T value, int source, const std::source_location& where) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = shuffle_bits(mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

using Fragment = std::array<std::uint32_t, 4>;
/// ldmatrix.x4: lane i gives row i % 8 of matrix i / 8, eight numbers of 16 bits; it gets numbers 2 * (lane % 4) and the next of row lane /
/// 4 of every matrix, or of its transpose.
Fragment load_matrices(const std::array<std::uint16_t, 8>& row, bool transposed, const std::source_location& where);

/// mma.m16n8k16: c += a b with the fragments of the PTX manual, in f32. `widen` makes a float of 16 bits.
void multiply_matrices(std::array<float, 4>& c, const Fragment& a, const std::array<std::uint32_t, 2>& b, float (*widen)(std::uint16_t),
                       const std::source_location& where);

/// cp.async: 16 bytes, of which those from `valid` on become 0. They are NaN until the copy is made, which is when the thread waits for
/// its group: so a missing wait shows.
void copy_async(void* to, const void* from, int valid);
void commit_copies();
/// Makes the copies of all groups but the last `pending` ones.
void wait_for_copies(int pending);

}  // namespace oxrse::emulation

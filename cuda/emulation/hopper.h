#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

// What sm_90 added, for the threads of a block (PTX ISA 8.0 and later: "Parallel Synchronization and Communication Instructions",
// "Tensor Memory Access", "Asynchronous Warpgroup Level Matrix Instructions"). Everything asynchronous happens as late as it may: copies
// when no thread can go on without them, products when they are waited for. Until then results are NaN, so a missing wait shows, and so do
// tiles that are overwritten too early.
namespace oxrse::emulation {

/// Where something is in the window of shared memory, which starts at a multiple of 16 bytes and of nothing larger.
unsigned shared_address(const void* memory);

// mbarriers: 8 bytes of shared memory each. A phase ends when all threads have arrived and all bytes have come that were announced.
void make_mbarrier(std::uint64_t* barrier, int threads);
void arrive(std::uint64_t* barrier);
/// Arrives and announces bytes.
void arrive_expecting(std::uint64_t* barrier, int bytes);
/// Waits until the phase of this parity, 0 for the first, is over.
void wait_for_phase(std::uint64_t* barrier, int parity, const std::source_location& where);

// Named barriers (bar.sync and bar.arrive): 1 to 15, for so many threads of the block.
void barrier(int name, int threads, const std::source_location& where);
void arrive(int name, int threads);

/// A tensor of up to four dimensions, the first of them contiguous, and the box of (columns, rows) of its first two that is copied at once.
struct TensorBox {
  const std::byte* base;
  std::array<std::int64_t, 4> sizes;
  std::array<std::int64_t, 3> strides;  // bytes from one element of dimension i + 1 to the next
  int columns, rows;
  int element;  // bytes
};
/// Copies the box at `first` to shared memory, one row of dimension 2 after the other, in the swizzle of 128 bytes; outside of the tensor
/// it is 0. Its bytes are told to the barrier.
void copy_box(void* to, const TensorBox& box, const std::array<int, 4>& first, std::uint64_t* barrier);

/// A product of a warpgroup, wgmma.m64nNk16: C (64 x columns) += A (64 x 16) B (16 x columns), or = where it does not accumulate.
struct WarpgroupProduct {
  float* c;     // columns / 2 numbers of the thread
  int columns;  // a multiple of 8
  bool accumulate;
  bool a_in_registers;
  std::array<std::uint32_t, 4> a;  // of the thread, where they are
  std::uint64_t a_matrix;          // else its descriptor
  std::uint64_t b_matrix;
  bool b_by_rows;  // whether elements of a row of B are neighbours, and not those of a column
  float (*widen)(std::uint16_t);
};
/// wgmma.fence, which every group has to begin with.
void fence_products();
void start_product(const WarpgroupProduct& product);
void commit_products();
/// Computes all groups but the last `pending` ones. Called by whole warps.
void wait_for_products(int pending, const std::source_location& where);

/// What a thread has started and not waited for.
class Products {
 public:
  void fence() { fenced_ = true; }
  void start(const WarpgroupProduct& product);
  void commit();
  [[nodiscard]] bool empty() const { return started_.empty(); }

  /// How many products are in groups other than the last `pending` ones.
  [[nodiscard]] std::size_t due(int pending) const;
  [[nodiscard]] const WarpgroupProduct& product(std::size_t i) const { return started_[i].product; }
  /// The sums that a product adds to.
  float* sums(std::size_t i);
  /// Forgets the first `count` products, and hands out the sums that no other product adds to.
  void finish(std::size_t count);

 private:
  struct Started {
    WarpgroupProduct product;
    int group;
  };
  struct Sums {
    float* to;  // the thread's registers
    std::vector<float> values;
  };
  std::vector<Sums>::iterator find(const float* c);

  std::vector<Started> started_;
  std::vector<Sums> sums_;
  int groups_ = 0;
  bool fenced_ = false;
};

}  // namespace oxrse::emulation

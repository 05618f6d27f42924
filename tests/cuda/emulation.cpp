// The emulation itself: what it computes, and what it refuses.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "cuda/instructions.h"
#include "cuda/launch.h"
#include "cuda/mma.h"
#include "cuda/reduce.h"
#include "engine/core/philox.h"
#include "tests/catch.h"

namespace oxrse::test {
namespace {

using namespace cuda_emulated;
using Catch::Matchers::Contains;

/// Runs the body as a kernel of one block, in several orders.
template <class Body>
void run_block(int threads, std::size_t shared, const Body& body) {
  for (const std::uint64_t order : {0, 1, 2, 3}) {
    emulation::run({.kernel = "test", .grid = {}, .threads = static_cast<unsigned>(threads), .shared = shared, .order = order}, body);
  }
}

/// What the kernel is refused with.
template <class Body>
std::string refusal(int threads, std::size_t shared, const Body& body) {
  try {
    run_block(threads, shared, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

float random_number(std::uint64_t i) { return static_cast<float>(RandomStream(4, 5).normal(i)); }

}  // namespace

TEST_CASE("emulation: barriers order shared memory") {
  for (const int threads : {1, 31, 32, 33, 129, 159, 1024}) {
    std::vector<int> result(static_cast<std::size_t>(threads));
    run_block(threads, static_cast<std::size_t>(threads) * sizeof(int), [&] {
      int* shared = shared_memory<int>();
      const int own = static_cast<int>(threadIdx.x);
      shared[own] = own;
      for (int i = 0; i < 3; ++i) {
        __syncthreads();
        const int next = shared[(own + 1) % threads];
        __syncthreads();
        shared[own] = next;
      }
      result[static_cast<std::size_t>(own)] = shared[own];
    });
    for (int i = 0; i < threads; ++i) CHECK(result[static_cast<std::size_t>(i)] == (i + 3) % threads);
  }
}

TEST_CASE("emulation: a missing barrier shows as NaN in some order") {
  int seen = 0;
  run_block(64, 64 * sizeof(float), [&] {
    float* shared = shared_memory<float>();
    shared[threadIdx.x] = 1;
    const float other = shared[63 - threadIdx.x];
    if (other != other) ++seen;
  });
  CHECK(seen > 0);
}

TEST_CASE("emulation: collectives of a warp") {
  run_block(96, 0, [] {
    const int own = static_cast<int>(threadIdx.x), lane = own % 32;
    CHECK(__shfl_xor_sync(kAllLanes, own, 5) == (own ^ 5));
    CHECK(__shfl_sync(kAllLanes, 0.5 * own, 7) == 0.5 * (own / 32 * 32 + 7));
    CHECK(__shfl_up_sync(kAllLanes, own, 3) == (lane < 3 ? own : own - 3));
    CHECK(__ballot_sync(kAllLanes, lane % 3 == 0) == 0x49249249U);
    CHECK(reduce_warp(lane, Plus()) == 496);
    // Halves of a warp by themselves.
    const unsigned half = lane < 16 ? 0x0000ffffU : 0xffff0000U;
    CHECK(__ballot_sync(half, lane % 16 == 2) == (4U << (lane < 16 ? 0U : 16U)));
  });
}

TEST_CASE("emulation: reductions of a block have one result in every thread and order") {
  for (const int threads : {32, 96, 256}) {
    std::vector<float> results;
    run_block(threads, kWarp * sizeof(float), [&] {
      const float sum = reduce_block(random_number(threadIdx.x), Plus(), shared_memory<float>());
      const float largest = reduce_block(random_number(threadIdx.x), Larger(), shared_memory<float>());
      results.push_back(sum);
      CHECK(largest >= random_number(threadIdx.x));
    });
    CHECK(std::ranges::count(results, results[0]) == std::ssize(results));
  }
}

TEST_CASE("emulation: products of fragments against sums in f64") {
  const auto check_type = []<class T>(TypeTag<T>) {
    constexpr int kStride = 24;
    const auto a_at = [](int row, int k) { return narrow<T>(random_number(static_cast<std::uint64_t>(row * 16 + k))); };
    const auto b_at = [](int k, int n) { return narrow<T>(random_number(static_cast<std::uint64_t>(1000 + k * 16 + n))); };
    for (const bool by_rows : {false, true}) {
      std::vector<float> c(256);
      run_block(32, 2 * 16 * kStride * sizeof(T), [&] {
        T* a_tile = shared_memory<T>();
        T* b_tile = a_tile + 16 * kStride;
        const int lane = static_cast<int>(threadIdx.x);
        for (int i = lane; i < 256; i += 32) {
          a_tile[i / 16 * kStride + i % 16] = a_at(i / 16, i % 16);
          b_tile[i / 16 * kStride + i % 16] = by_rows ? b_at(i / 16, i % 16) : b_at(i % 16, i / 16);
        }
        __syncwarp();
        float left[4] = {1, 1, 1, 1}, right[4] = {1, 1, 1, 1};
        const auto b = by_rows ? Mma<T>::load_b_by_rows(b_tile, kStride, 0, 0) : Mma<T>::load_b(b_tile, kStride, 0, 0);
        Mma<T>::multiply(left, right, Mma<T>::load_a(a_tile, kStride, 0, 0), b);
        // A result goes into the next product as its left operand: times the unit matrix, it stays.
        for (int i = 0; i < 4; ++i) {
          const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
          c[static_cast<std::size_t>(row * 16 + column)] = left[i];
          c[static_cast<std::size_t>(row * 16 + column + 8)] = right[i];
        }
      });
      for (int row = 0; row < 16; ++row) {
        for (int n = 0; n < 16; ++n) {
          double sum = 1;
          for (int k = 0; k < 16; ++k) sum += static_cast<double>(widen(a_at(row, k))) * static_cast<double>(widen(b_at(k, n)));
          CHECK(static_cast<double>(c[static_cast<std::size_t>(row * 16 + n)]) == Approx(sum).margin(1e-5));
        }
      }
    }
  };
  check_type(TypeTag<bf16>{});
  check_type(TypeTag<f16>{});
  check_type(TypeTag<float>{});
}

TEST_CASE("emulation: asynchronous copies are made when they are waited for") {
  alignas(16) std::array<float, 8> from;
  std::iota(from.begin(), from.end(), 1.0F);
  run_block(1, 32, [&] {
    float* to = shared_memory<float>();
    copy_async(to, from.data(), 16);
    commit_copies();
    copy_async(to + 4, from.data() + 4, 8);
    commit_copies();
    CHECK(to[0] != to[0]);
    wait_for_copies<1>();
    CHECK(to[3] == 4);
    CHECK(to[4] != to[4]);
    wait_for_copies<0>();
    CHECK(to[5] == 6);
    CHECK(to[6] == 0);  // past the valid bytes
  });
  CHECK_THAT(refusal(1, 32, [&] { copy_async(shared_memory<float>(), from.data(), 16); }), Contains("did not wait for"));
  CHECK_THAT(refusal(1, 32, [&] { copy_async(shared_memory<float>() + 1, from.data(), 16); }), Contains("multiples of 16 bytes"));
}

TEST_CASE("emulation: what the hardware leaves undefined is refused") {
  // Outside of the macros, whose arguments are all on one line to the compiler.
  const auto barriers_in_branches = [] {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  };
  const auto barrier_or_warp = [] {
    if (threadIdx.x < 16) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  };
  const auto different_collectives = [] {
    if (threadIdx.x % 2 == 0) {
      __shfl_xor_sync(kAllLanes, 1, 1);
    } else {
      __ballot_sync(kAllLanes, true);
    }
  };
  CHECK_THAT(refusal(64, 0, barriers_in_branches), Contains("wait at different barriers"));
  CHECK_THAT(refusal(32, 0, barrier_or_warp), Contains("threads wait forever"));
  CHECK_THAT(refusal(32, 0, different_collectives), Contains("different collectives"));
  CHECK_THAT(refusal(32, 0, [] { __ballot_sync(1U, true); }), Contains("not in the mask"));
  CHECK_THAT(refusal(1, 16, [] { shared_memory<float>()[4] = 0; }), Contains("wrote next to its 16 bytes"));
  CHECK_THAT(refusal(1025, 0, [] {}), Contains("1 to 1024"));
  CHECK_THAT(refusal(1, 228 * 1024, [] {}), Contains("shared memory"));
  const emulation::Launch tall{.kernel = "tall", .grid = {1, 65536, 1}};
  CHECK_THROWS_WITH(emulation::run(tall, [] {}), Contains("65535"));
  // After all that, kernels still run.
  CHECK(refusal(64, 0, [] { __syncthreads(); }).empty());
}

TEST_CASE("emulation: threads that ended count as arrived") {
  int passed = 0;
  emulation::run({.kernel = "early", .grid = {2, 1, 1}, .threads = 64}, [&] {
    if (threadIdx.x % 2 == 1) return;
    __syncthreads();
    __syncwarp();
    ++passed;
  });
  CHECK(passed == 64);
}

TEST_CASE("emulation: orders are drawn from the seed") {
  const auto order_of = [](std::uint64_t seed) {
    std::vector<unsigned> threads;
    emulation::run({.kernel = "order", .grid = {3, 1, 1}, .threads = 50, .order = seed},
                   [&] { threads.push_back(blockIdx.x * 50 + threadIdx.x); });
    return threads;
  };
  CHECK(std::ranges::is_sorted(order_of(0)));
  CHECK(order_of(1) == order_of(1));
  CHECK(order_of(1) != order_of(2));
  CHECK(order_of(1).size() == 150);
}

TEST_CASE("emulation: an error in a kernel ends the launch") {
  CHECK_THAT(refusal(64, 0,
                     [] {
                       if (threadIdx.x == 40) fail("thread 40");
                       __syncthreads();
                     }),
             Contains("thread 40"));
}

}  // namespace oxrse::test

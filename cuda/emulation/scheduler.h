#pragma once

#include <array>
#include <boost/context/fiber.hpp>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <source_location>
#include <span>
#include <vector>

#include "cuda/emulation/block.h"
#include "cuda/emulation/hopper.h"
#include "cuda/emulation/sanitizers.h"
#include "cuda/emulation/stacks.h"
#include "engine/core/philox.h"

namespace oxrse::emulation {

/// What a collective of a warp computes when all its lanes are there: `in` and `out` are those of the lanes that came, null for others.
using LaneInputs = std::array<const void*, kWarp>;
using LaneOutputs = std::array<void*, kWarp>;
using Combine = void (*)(const LaneInputs& in, const LaneOutputs& out);

/// A copy that was asked for and not made yet.
struct AsyncCopy {
  void* to;
  const void* from;
  int valid;  // bytes
  int group;  // how many groups were committed before
};

/// Threads that came to a named barrier.
struct NamedBarrier {
  int threads = 0;  // that it is for; 0: none is there
  int arrived = 0;
  std::int64_t phase = 0;
};

/// The fibers of a block and what they wait for.
class Scheduler {
 public:
  Scheduler() = default;
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Runs all blocks of a launch.
  void run(const Launch& launch, const std::function<void()>& body);

  // Called by fibers.
  void wait_for_block(const std::source_location& where);
  /// `orders`: whether what lanes wrote to memory before is seen by the others afterwards.
  void wait_for_lanes(unsigned mask, Combine combine, const void* in, void* out, bool orders, const std::source_location& where);
  [[nodiscard]] int lane() const { return current_ % kWarp; }
  [[nodiscard]] void* shared_memory() const { return shared_; }
  std::vector<AsyncCopy>& copies() { return threads_[static_cast<std::size_t>(current_)].copies; }
  int& groups() { return threads_[static_cast<std::size_t>(current_)].groups; }
  Products& products() { return threads_[static_cast<std::size_t>(current_)].products; }

  /// Until somebody signals it. Whether it is for the waiter is his to see.
  void wait_for(const void* event, const std::source_location& where);
  void signal(const void* event);
  /// What the hardware does by itself, one thing at a time and in any order, when no thread can go on.
  std::deque<std::function<void()>>& transfers() { return transfers_; }
  NamedBarrier& named_barrier(int name) { return named_barriers_[static_cast<std::size_t>(name)]; }
  [[nodiscard]] std::size_t shared_bytes() const { return launch_.shared; }
  [[nodiscard]] int thread_index() const { return current_; }

 private:
  enum class State : std::uint8_t { Ready, AtBarrier, AtCollective, AtEvent, Ended };

  struct Thread {
    boost::context::fiber fiber;      // where to go on with the thread
    boost::context::fiber scheduler;  // where it was gone on from
    SanitizerFiber sanitizer;
    State state = State::Ready;
    std::source_location where;  // it waits
    // Of the collective it waits in.
    unsigned mask = 0;
    Combine combine = nullptr;
    const void* in = nullptr;
    void* out = nullptr;
    bool orders = false;
    const void* event = nullptr;  // that it waits for
    std::vector<AsyncCopy> copies;
    int groups = 0;
    Products products;
    char released = 0;  // its address stands for what the thread may see when it goes on
  };

  /// The lanes of a warp as bits.
  struct Warp {
    unsigned exist = 0, ended = 0, waiting = 0;  // waiting: in a collective
    char arrived = 0;                            // its address stands for what lanes did before they came to a __syncwarp
  };
  /// Thrown on a fiber to end it early, and caught there.
  struct Abort {};

  void run_block(unsigned index);
  /// Picks the threads that go on next: all that can, in rounds. With even orders only those of one warp, which so gets as far ahead of the
  /// others as barriers let it.
  void choose_ready();
  /// A number drawn from [0, below); 0 in ascending order.
  std::size_t draw(std::size_t below);
  /// Makes one transfer, the oldest in ascending order; false when there is none.
  bool transfer();
  void start(int thread);
  void work(int thread);
  void resume(int thread);
  void suspend();
  void end(int thread);
  void abort();
  /// What is wrong with a block whose threads do not go on; nothing when all have ended well.
  [[nodiscard]] std::string problem() const;
  void try_barrier();
  void try_collective(int thread);
  void release_lanes(int warp, unsigned lanes);
  void make_ready(int thread);
  void shuffle(std::span<int> order);
  [[nodiscard]] std::string place() const;
  [[nodiscard]] std::string threads_at(State state) const;
  Warp& warp_of(int i) { return warps_[static_cast<std::size_t>(i / kWarp)]; }
  static unsigned bit_of(int i) { return 1U << static_cast<unsigned>(i % kWarp); }
  Thread& thread(int i) { return threads_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const Thread& thread(int i) const { return threads_[static_cast<std::size_t>(i)]; }

  Launch launch_;
  const std::function<void()>* body_ = nullptr;
  std::byte* shared_ = nullptr;
  Stacks stacks_;
  std::vector<Thread> threads_;  // kept from launch to launch
  int count_ = 0;                // threads of the block
  std::vector<Warp> warps_;
  int waiting_ = 0, ended_ = 0;  // at the barrier; ended
  int first_waiting_ = 0;        // a thread at the barrier, if there is one
  std::array<NamedBarrier, 16> named_barriers_;
  std::deque<std::function<void()>> transfers_;
  std::vector<int> ready_, next_ready_;
  std::vector<int> warp_order_;  // the smaller, the earlier a warp's threads go on
  int current_ = -1;
  std::uint64_t draws_ = 0;
  std::exception_ptr error_;
  bool aborting_ = false;
  SanitizerFiber sanitizer_;
  char arrived_ = 0;   // its address stands for what threads did before they came to a barrier
  char finished_ = 0;  // and for what they did before they ended
};

Scheduler& scheduler();

}  // namespace oxrse::emulation

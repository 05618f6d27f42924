#pragma once

#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/cost.h"
#include "comm/execution.h"
#include "comm/failure/activity.h"
#include "comm/schedule.h"
#include "comm/transport/device.h"
#include "comm/transport/transport.h"
#include "engine/core/tensor.h"

namespace oxrse::comm {

/// How ranks talk to each other.
struct Settings {
  Choice choice;           // of algorithms for sums
  double timeout_s = 600;  // wait this long for another rank
  double query_s = 1;      // ask what others are doing after waiting this long
  int ranks_per_node = 1;
  Activity* activity = nullptr;  // is told of steps and operations
};

/// A compiled operation that may be started any number of times.
struct Plan {
  Request request;
  DType type = DType::F32;
  Algorithm algorithm = Algorithm::Ring;
  Program program;
  std::uint64_t hash = 0;  // of everything that ranks must agree about
  double predicted = 0;    // seconds
  std::string name;        // of messages, which are no collective

  /// "all_reduce of 1000 f32 by ring", "messages, 3 in all".
  [[nodiscard]] std::string describe() const;
};

/// Collectives among the ranks of a transport. All ranks call the same operations in the same order; what differs is noticed, named on
/// every rank and ends all of them with an Error. So does a rank that does not answer for `timeout_s`, and an error of another rank.
///
/// Operations advance while somebody waits for one, and otherwise on a thread of its own after `advance_in_background`.
class Communicator {
 public:
  /// An operation that was started: wait for it exactly once.
  using Ticket = std::uint64_t;

  /// So many operations go on at once, those that were started first: only they take memory besides their operands.
  static constexpr int kActive = 2;
  /// What a rank sums at once on the host: so much of its share, from two or three ranks, stays in a processor's second-level cache.
  static constexpr std::int64_t kSegmentBytes = 128 << 10;

  Communicator(std::unique_ptr<Transport> transport, Settings settings);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int rank() const { return transport_->rank(); }
  [[nodiscard]] int size() const { return transport_->size(); }

  /// Compiles a request, by the given algorithm or by the one that should be fastest.
  [[nodiscard]] std::shared_ptr<const Plan> plan(Request request, DType type, std::optional<Algorithm> algorithm = std::nullopt) const;
  /// Compiles messages that travel at the same time; all ranks give the same ones, in the same order. The operands are F32: input i is the
  /// memory of the i-th message that this rank sends or receives. It begins and ends at multiples of 4 bytes, also where the message does
  /// not.
  [[nodiscard]] std::shared_ptr<const Plan> plan(std::span<const Message> messages) const;
  /// Begins an operation, or puts it behind those that go on. Operands and plan must stay until it is waited for. `what` says what it is
  /// for in messages.
  Ticket start(std::shared_ptr<const Plan> plan, Operands operands, const char* what = "");
  /// Returns when the operation has ended.
  void wait(Ticket ticket);
  /// Whether it has; it must be waited for even so.
  [[nodiscard]] bool done(Ticket ticket);

  /// data = sum over the ranks, in place. The tensor is contiguous.
  void all_reduce(Tensor data, const char* what = "");
  /// data = that of rank `root`.
  void broadcast(Tensor data, int root = 0, const char* what = "");
  /// Sum over the ranks of a few numbers.
  void all_reduce(std::span<double> data, const char* what = "");
  /// The text of rank `root`.
  std::string broadcast(const std::string& text, int root = 0, const char* what = "");
  /// The texts of all ranks.
  std::vector<std::string> all_gather(const std::string& text, const char* what = "");
  /// Returns when all ranks have called it. Without a limit of time others may work for as long as they need, as long as they live and,
  /// once operations go on in the background, their processes answer.
  void barrier(const char* what = "", bool limited = true);

  /// From here on operations go on while the caller computes. The thread sleeps between looks, so that it takes little of the processors'
  /// time, and takes no signals.
  void advance_in_background();
  /// Tells the other ranks that this one cannot go on, and why.
  void abort(const std::string& why) noexcept;
  /// Gives up what is in flight here, if anything is: operands are not touched afterwards, and nothing can be started. For who started it
  /// and cannot wait because of an error.
  void halt() noexcept;
  /// On the first rank: tells the others that what ended the ranks has been printed.
  void tell_reported();
  /// On another: waits until the first has said so; false when it does not within `seconds`.
  bool wait_until_reported(double seconds);
  /// Which step of the run messages should name.
  void set_step(std::int64_t step);

  /// From here on operands may be in the memory of this rank's GPU (`Operands::on_device`). All ranks call it.
  void use_device(std::unique_ptr<DeviceTransport> device) { device_ = std::move(device); }
  /// Absent without a GPU.
  [[nodiscard]] DeviceTransport* device() { return device_.get(); }

  /// "rank 3 (host n1, process 4711)".
  [[nodiscard]] std::string name_of_rank(int rank) const;
  [[nodiscard]] const Settings& settings() const { return settings_; }
  /// Changes how the ranks talk from here on. While nothing is in flight, on all ranks.
  void configure(const Settings& settings);
  /// Bytes of memory besides operands that operations on the host have taken at the most.
  [[nodiscard]] std::int64_t scratch_peak() {
    const std::lock_guard lock(mutex_);
    return pool_.peak();
  }

  /// What algorithms are chosen by from here on; all ranks give the same. Without it there are the presets.
  void set_cost(const CostModel& cost);
  [[nodiscard]] const CostModel& cost() const { return cost_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Flight {
    Ticket ticket = 0;
    std::shared_ptr<const Plan> plan;
    std::uint64_t hash = 0;  // of plan and place
    Operands operands;
    std::unique_ptr<Execution> execution;  // absent before its turn
    std::string what;
    bool done = false;
    bool limited = false;      // somebody waits for it, for a time
    std::int64_t events = -1;  // when last looked at by watch()
    Clock::time_point moved;   // when it was last seen to go on
  };
  struct Past {
    std::uint64_t sequence = 0, plan = 0;
    std::string text;
  };
  struct Peer {
    std::uint64_t sequence = 0;  // the operation it last said to be at
    Clock::time_point heard;
  };

  /// Does `work` under the lock, unless something ended this communicator before. What it throws ends it.
  template <class Work>
  auto locked(const Work& work);
  /// Nothing goes on from here on; whoever calls is told this error.
  void end_with(std::exception_ptr error) noexcept;
  Ticket begin(std::shared_ptr<const Plan> plan, Operands operands, const char* what);
  [[nodiscard]] std::deque<Flight>::iterator find(Ticket ticket);
  void begin_next();
  void advance_all();
  bool advance(Flight& flight);
  void watch();
  void read_notices();
  void answer(const Notice& query);
  void compare(const Notice& query);
  [[nodiscard]] Notice notice(Notice::Kind kind, const std::string& text) const;
  [[nodiscard]] std::string describe(const Flight& flight) const;
  [[noreturn]] void fail_all(const std::string& why);
  /// Whether a rank has not answered for long, and those that have not.
  [[nodiscard]] bool is_silent(const Peer& peer) const;
  [[nodiscard]] std::vector<int> silent_ranks() const;
  [[noreturn]] void time_out(const Flight& flight);
  void run_background();
  [[nodiscard]] std::shared_ptr<const Plan> cached(Collective collective, std::int64_t count, DType type, int root);
  void wait_for(Ticket ticket, bool limited);

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<DeviceTransport> device_;
  Settings settings_;
  CostModel cost_;
  MemoryPool pool_;
  std::map<std::tuple<Collective, std::int64_t, DType, int>, std::shared_ptr<const Plan>> plans_;
  std::mutex mutex_;                  // of all below and of the transport
  std::deque<Flight> flights_;        // in the order they were started
  std::uint64_t sequence_ = 0;        // operations started
  std::deque<Past> past_;             // the last of them
  std::vector<Notice> open_queries_;  // about operations that this rank has not reached
  std::vector<Peer> peers_;
  Clock::time_point asked_{}, watched_{};
  std::exception_ptr error_;  // what ended it
  bool aborted_ = false;
  bool reported_ = false;  // the first rank has said so
  std::int64_t step_ = -1;
  std::thread background_;
  bool stop_ = false;
};

}  // namespace oxrse::comm

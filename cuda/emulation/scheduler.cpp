#include "cuda/emulation/scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <string>

#include "cuda/emulation/builtins.h"
#include "engine/core/error.h"

namespace oxrse::emulation {
namespace {

constexpr std::size_t kZone = 128;  // before and after shared memory
constexpr int kPoison = 0xff, kPattern = 0xA5;

std::string text(const std::source_location& where) {
  const std::string_view file = where.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line());
}

bool same_place(const std::source_location& a, const std::source_location& b) {
  if (a.line() != b.line() || a.column() != b.column()) return false;
  return a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name();  // mostly the same literal
}

/// A block's shared memory with zones around it that show writes outside.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : bytes_(bytes), zones_(static_cast<std::byte*>(::operator new (bytes + 2 * kZone, std::align_val_t{kZone}))) {
    std::memset(zones_, kPattern, bytes_ + 2 * kZone);
    std::memset(data(), kPoison, bytes_);
  }
  ~SharedMemory() { ::operator delete (zones_, std::align_val_t{kZone}); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return zones_ + kZone; }
  [[nodiscard]] bool intact() const {
    const auto zone_intact = [](const std::byte* zone) {
      return std::all_of(zone, zone + kZone, [](std::byte b) { return b == std::byte{kPattern}; });
    };
    return zone_intact(zones_) && zone_intact(zones_ + kZone + bytes_);
  }

 private:
  std::size_t bytes_;
  std::byte* zones_;
};

void check_limits(const Launch& launch) {
  const Shape& g = launch.grid;
  require(g.x <= kMostBlocksX && g.y <= kMostBlocksYZ && g.z <= kMostBlocksYZ, "{}: a grid of {} x {} x {} blocks: at most {} x {} x {}",
          launch.kernel, g.x, g.y, g.z, kMostBlocksX, kMostBlocksYZ, kMostBlocksYZ);
  require(launch.threads >= 1 && launch.threads <= kMostThreads, "{}: a block of {} threads: 1 to {} are possible", launch.kernel,
          launch.threads, kMostThreads);
  require(launch.shared <= kMostShared, "{}: {} bytes of shared memory: at most {}", launch.kernel, launch.shared, kMostShared);
}

}  // namespace

Scheduler& scheduler() {
  thread_local Scheduler instance;
  return instance;
}

Scheduler::~Scheduler() {
  for (Thread& t : threads_) t.sanitizer.destroy();
}

std::string Scheduler::place() const {
  return fmt::format("{}: block ({}, {}, {})", launch_.kernel, ::blockIdx.x, ::blockIdx.y, ::blockIdx.z);
}

std::string Scheduler::threads_at(State state) const {
  std::string list;
  int listed = 0;
  for (int i = 0; i < count_ && listed < 4; ++i) {
    if (thread(i).state != state) continue;
    list += fmt::format("{}thread {} at {}", listed++ == 0 ? "" : ", ", i, text(thread(i).where));
  }
  return list;
}

std::size_t Scheduler::draw(std::size_t below) {
  return launch_.order == 0 ? 0 : RandomStream(launch_.order, 0).words(draws_++)[0] % below;
}

void Scheduler::shuffle(std::span<int> order) {
  if (launch_.order == 0) return;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(i)]);
}

void Scheduler::run(const Launch& launch, const std::function<void()>& body) {
  check_limits(launch);
  require(current_ < 0, "{}: launched by a kernel", launch.kernel);
  launch_ = launch;
  body_ = &body;
  draws_ = 0;
  count_ = static_cast<int>(launch.threads);
  if (threads_.size() < launch.threads) threads_.resize(launch.threads);
  ready_.reserve(launch.threads);  // so that no fiber moves them: a race in the eyes of TSan
  next_ready_.reserve(launch.threads);
  ::blockDim = {launch.threads, 1, 1};
  ::gridDim = {launch.grid.x, launch.grid.y, launch.grid.z};
  std::vector<int> blocks(std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z);
  std::iota(blocks.begin(), blocks.end(), 0);
  shuffle(blocks);
  for (const int block : blocks) run_block(static_cast<unsigned>(block));
}

void Scheduler::run_block(unsigned index) {
  const Shape& grid = launch_.grid;
  ::blockIdx = {index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y};
  const SharedMemory shared(launch_.shared);
  shared_ = shared.data();
  waiting_ = ended_ = 0;
  error_ = nullptr;
  aborting_ = false;
  next_ready_.clear();
  warps_.assign(static_cast<std::size_t>((count_ + kWarp - 1) / kWarp), Warp{});
  warp_order_.resize(warps_.size());
  std::iota(warp_order_.begin(), warp_order_.end(), 0);
  shuffle(warp_order_);
  sanitizer_.use_current();
  for (int i = 0; i < count_; ++i) start(i);
  named_barriers_ = {};
  transfers_.clear();
  while (error_ == nullptr) {
    if (next_ready_.empty()) {
      if (ended_ == count_ || !transfer()) break;
      continue;
    }
    choose_ready();
    shuffle(ready_);
    for (std::size_t i = 0; i < ready_.size() && error_ == nullptr; ++i) resume(ready_[i]);
  }
  std::string wrong;
  if (error_ == nullptr)
    wrong = shared.intact() ? problem() : fmt::format("{}: wrote next to its {} bytes of shared memory", place(), launch_.shared);
  abort();
  current_ = -1;
  if (error_ != nullptr) std::rethrow_exception(error_);
  require(wrong.empty(), "{}", wrong);
}

bool Scheduler::transfer() {
  if (transfers_.empty()) return false;
  const auto next = transfers_.begin() + static_cast<std::ptrdiff_t>(draw(transfers_.size()));
  const std::function<void()> work = std::move(*next);
  transfers_.erase(next);
  work();
  return true;
}

std::string Scheduler::problem() const {
  if (ended_ < count_) {
    return fmt::format("{}: threads wait forever: at a barrier {}; in a warp {}; for a phase {}", place(), threads_at(State::AtBarrier),
                       threads_at(State::AtCollective), threads_at(State::AtEvent));
  }
  for (std::size_t i = 0; i < named_barriers_.size(); ++i) {
    if (named_barriers_[i].arrived > 0) return fmt::format("{}: threads arrived at barrier {} that nobody waits at", place(), i);
  }
  if (!transfers_.empty()) return fmt::format("{}: ended with copies to its shared memory under way", place());
  return "";
}

void Scheduler::choose_ready() {
  ready_.swap(next_ready_);
  next_ready_.clear();
  if (launch_.order == 0 || launch_.order % 2 == 1) return;
  const auto rank = [&](int i) { return warp_order_[static_cast<std::size_t>(i / kWarp)]; };
  const int least = rank(*std::ranges::min_element(ready_, {}, rank));
  const auto others = std::partition(ready_.begin(), ready_.end(), [&](int i) { return rank(i) == least; });
  next_ready_.assign(others, ready_.end());
  ready_.erase(others, ready_.end());
}

void Scheduler::start(int i) {
  Thread& t = thread(i);
  t.copies.clear();
  t.groups = 0;
  t.products = {};
  t.sanitizer.create();
  const auto stack = stacks_.take();
  t.sanitizer.set_stack(static_cast<std::byte*>(stack.sp) - stack.size, stack.size);
  t.fiber = boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), StackAllocator{&stacks_},
                                  [this, i](boost::context::fiber&& from) {
                                    thread(i).scheduler = std::move(from);
                                    work(i);
                                    return std::move(thread(i).scheduler);
                                  });
  warp_of(i).exist |= bit_of(i);
  make_ready(i);
}

void Scheduler::work(int i) {
  Thread& t = thread(i);
  t.sanitizer.enter(sanitizer_);
  acquire(&t.released);
  try {
    if (!aborting_) (*body_)();
    if (!(aborting_ || t.copies.empty())) fail("{}: thread {} ended with asynchronous copies that it did not wait for", place(), i);
    if (!(aborting_ || t.products.empty())) fail("{}: thread {} ended with products that it did not wait for", place(), i);
  } catch (const Abort&) {  // another thread's error is on its way
  } catch (...) {
    error_ = std::current_exception();
  }
  t.state = State::Ended;
  release(&finished_);
  t.sanitizer.leave(sanitizer_, true);
}

void Scheduler::make_ready(int i) {
  thread(i).state = State::Ready;
  next_ready_.push_back(i);
  release(&thread(i).released);
}

void Scheduler::resume(int i) {
  Thread& t = thread(i);
  current_ = i;
  ::threadIdx = {static_cast<unsigned>(i), 0, 0};
  sanitizer_.leave(t.sanitizer);
  t.fiber = std::move(t.fiber).resume();
  sanitizer_.enter(t.sanitizer);
  if (t.state == State::Ended && !aborting_) end(i);
}

void Scheduler::end(int i) {
  acquire(&finished_);
  ++ended_;
  Warp& warp = warp_of(i);
  warp.ended |= bit_of(i);
  // Those that waited for this thread may go on.
  try_barrier();
  for (int lane = i / kWarp * kWarp; lane < std::min(count_, (i / kWarp + 1) * kWarp); ++lane) {
    if ((warp.waiting & bit_of(lane)) != 0) try_collective(lane);
  }
}

void Scheduler::abort() {
  aborting_ = true;
  for (int i = 0; i < count_; ++i) {
    if (thread(i).state != State::Ended) resume(i);
  }
  acquire(&finished_);
}

void Scheduler::suspend() {
  Thread& t = thread(current_);
  t.sanitizer.leave(sanitizer_);
  t.scheduler = std::move(t.scheduler).resume();
  t.sanitizer.enter(sanitizer_);
  if (aborting_) throw Abort{};
  acquire(&t.released);
}

void Scheduler::wait_for_block(const std::source_location& where) {
  Thread& t = thread(current_);
  if (waiting_ == 0) {
    first_waiting_ = current_;
  } else {
    const Thread& first = thread(first_waiting_);
    if (!(same_place(first.where, where))) {
      fail("{}: threads {} and {} wait at different barriers, {} and {}", place(), first_waiting_, current_, text(first.where),
           text(where));
    }
  }
  t.state = State::AtBarrier;
  t.where = where;
  ++waiting_;
  release(&arrived_);
  try_barrier();
  suspend();
}

void Scheduler::try_barrier() {
  if (waiting_ == 0 || waiting_ + ended_ < count_) return;
  acquire(&arrived_);
  waiting_ = 0;
  for (int i = 0; i < count_; ++i) {
    if (thread(i).state == State::AtBarrier) make_ready(i);
  }
}

void Scheduler::wait_for(const void* event, const std::source_location& where) {
  Thread& t = thread(current_);
  t.state = State::AtEvent;
  t.where = where;
  t.event = event;
  suspend();
}

void Scheduler::signal(const void* event) {
  for (int i = 0; i < count_; ++i) {
    if (thread(i).state == State::AtEvent && thread(i).event == event) make_ready(i);
  }
}

void Scheduler::wait_for_lanes(unsigned mask, Combine combine, const void* in, void* out, bool orders, const std::source_location& where) {
  const int own = current_;
  Warp& warp = warp_of(own);
  Thread& t = thread(own);
  if (!((mask & bit_of(own)) != 0))
    fail("{}: thread {} is not in the mask {:#x} of its own collective at {}", place(), own, mask, text(where));
  if (const unsigned others = mask & warp.waiting; others != 0) {
    const int first = own / kWarp * kWarp + std::countr_zero(others);
    const Thread& other = thread(first);
    if (!(other.mask == mask && same_place(other.where, where))) {
      fail("{}: threads {} and {} of a warp wait in different collectives, {} with mask {:#x} and {} with mask {:#x}", place(), first, own,
           text(other.where), other.mask, text(where), mask);
    }
  }
  t.state = State::AtCollective;
  t.where = where;
  t.mask = mask;
  t.combine = combine;
  t.in = in;
  t.out = out;
  t.orders = orders;
  warp.waiting |= bit_of(own);
  if (orders) release(&warp.arrived);
  try_collective(own);
  suspend();
}

void Scheduler::try_collective(int i) {
  const Warp& warp = warp_of(i);
  const unsigned needed = thread(i).mask & warp.exist & ~warp.ended;
  if ((needed & ~warp.waiting) == 0) release_lanes(i / kWarp, needed);
}

void Scheduler::release_lanes(int warp_index, unsigned lanes) {
  Warp& warp = warps_[static_cast<std::size_t>(warp_index)];
  warp.waiting &= ~lanes;
  LaneInputs in{};
  LaneOutputs out{};
  const Thread* any = nullptr;
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(left));
    any = &thread(warp_index * kWarp + static_cast<int>(lane));
    in[lane] = any->in;
    out[lane] = any->out;
  }
  if (any->combine != nullptr) any->combine(in, out);
  if (any->orders) acquire(&warp.arrived);
  const bool orders = any->orders;
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const int i = warp_index * kWarp + std::countr_zero(left);
    thread(i).state = State::Ready;
    next_ready_.push_back(i);
    if (orders) release(&thread(i).released);
  }
}

}  // namespace oxrse::emulation

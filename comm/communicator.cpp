#include "comm/communicator.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "comm/algorithms/algorithms.h"

namespace oxrse::comm {
namespace {

using namespace std::chrono_literals;

/// FNV-1a over numbers.
class Hash {
 public:
  void add(std::uint64_t value) {
    value_ = (value_ ^ value) * 0x100000001b3U;
    value_ ^= value_ >> 29U;
  }
  [[nodiscard]] std::uint64_t value() const { return value_ * 0x9E3779B97F4A7C15U; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

std::uint64_t hash_of(const Request& r, DType type, Algorithm algorithm) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(r.collective) | static_cast<std::uint64_t>(algorithm) << 8U |
           static_cast<std::uint64_t>(type) << 16U | static_cast<std::uint64_t>(r.root) << 24U);
  hash.add(static_cast<std::uint64_t>(r.count));
  hash.add(static_cast<std::uint64_t>(r.chunk));
  hash.add(static_cast<std::uint64_t>(r.segment));
  for (const std::int64_t bound : r.bounds) hash.add(static_cast<std::uint64_t>(bound));
  for (const auto& node : r.tree.nodes()) {
    hash.add(static_cast<std::uint64_t>(node.left + 1) << 32U | static_cast<std::uint64_t>(node.right + 1));
    hash.add(static_cast<std::uint64_t>(node.rank) << 32U | static_cast<std::uint64_t>(node.part));
  }
  return hash.value();
}

std::byte* bytes_of(Tensor t) { return t.address(); }

/// A thread that no signal is delivered to: handlers must run elsewhere.
std::thread start_without_signals(const std::function<void()>& body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(body);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

/// What ranks must agree about: the plan, and whose memory it is about.
std::uint64_t hash_of(const Plan& plan, const Operands& operands) { return operands.on_device ? ~plan.hash : plan.hash; }

constexpr std::size_t kPast = 256;  // operations that are remembered for comparison

}  // namespace

std::string Plan::describe() const {
  if (!name.empty()) return name;
  return fmt::format("{} of {} {} by {}", comm::name_of(request.collective), request.count, oxrse::name_of(type), comm::name_of(algorithm));
}

Communicator::Communicator(std::unique_ptr<Transport> transport, Settings settings)
    : transport_(std::move(transport)), settings_(std::move(settings)), peers_(static_cast<std::size_t>(transport_->size())) {}

Communicator::~Communicator() {
  if (!background_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  background_.join();
}

std::shared_ptr<const Plan> Communicator::plan(Request request, DType type, std::optional<Algorithm> algorithm) const {
  require(request.ranks() == size(), "a request for {} ranks among {}", request.ranks(), size());
  request.wide = accumulator_of(type) != type;
  request.ranks_per_node = settings_.ranks_per_node;
  request.chunk = cost_.best_chunk(request, type);
  request.segment = device_ ? 0 : kSegmentBytes / size_of(type);  // for caches of processors
  auto plan = std::make_shared<Plan>();
  plan->type = type;
  plan->algorithm = algorithm ? *algorithm : choose(cost_, request, type, settings_.choice);
  plan->program = compile(plan->algorithm, request, rank());
  plan->predicted = cost_.predict(plan->program, type);
  plan->hash = hash_of(request, type, plan->algorithm);
  plan->request = std::move(request);
  return plan;
}

std::shared_ptr<const Plan> Communicator::plan(std::span<const Message> messages) const {
  auto plan = std::make_shared<Plan>();
  plan->name = fmt::format("messages, {} in all", messages.size());
  Hash hash;
  for (const Message& m : messages) {
    hash.add(static_cast<std::uint64_t>(m.from) << 32U | static_cast<std::uint64_t>(m.to));
    hash.add(static_cast<std::uint64_t>(m.bytes));
  }
  plan->program = comm::messages(messages, rank(), size());
  plan->hash = hash.value();
  return plan;
}

template <class Work>
auto Communicator::locked(const Work& work) {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  try {
    return work();
  } catch (...) {
    end_with(std::current_exception());
    throw;
  }
}

/// The owners of operands may take them away once they have the error.
void Communicator::end_with(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  if (device_) device_->abort();
  flights_.clear();
}

void Communicator::halt() noexcept {
  const std::lock_guard lock(mutex_);
  if (!flights_.empty()) end_with(std::make_exception_ptr(Error("this rank was stopped by an error")));
}

Communicator::Ticket Communicator::start(std::shared_ptr<const Plan> plan, Operands operands, const char* what) {
  return locked([&] { return begin(std::move(plan), std::move(operands), what); });
}

Communicator::Ticket Communicator::begin(std::shared_ptr<const Plan> plan, Operands operands, const char* what) {
  require(!operands.on_device || device_, "an operation on the memory of a GPU, but these ranks use none");
  Flight flight{.ticket = ++sequence_,
                .plan = std::move(plan),
                .hash = 0,
                .operands = std::move(operands),
                .execution = nullptr,
                .what = what,
                .moved = Clock::now()};
  flight.hash = hash_of(*flight.plan, flight.operands);
  past_.push_back({sequence_, flight.hash, describe(flight)});
  if (settings_.activity != nullptr) settings_.activity->begin(sequence_, past_.back().text);
  if (past_.size() > kPast) past_.pop_front();
  for (const Notice& query : std::exchange(open_queries_, {})) answer(query);
  flights_.push_back(std::move(flight));
  begin_next();
  return sequence_;
}

/// Begins operations whose turn it is. Every rank has started the oldest one that is not done anywhere, or will, so nobody waits in vain.
void Communicator::begin_next() {
  int active = 0;
  for (Flight& flight : flights_) {
    if (flight.done) continue;
    if (++active > kActive) return;
    if (flight.execution) continue;
    const Tag tag{flight.ticket, flight.hash};
    const Program& program = flight.plan->program;
    flight.execution = flight.operands.on_device
                           ? device_->execute(program, std::move(flight.operands), tag, *transport_)
                           : std::make_unique<HostExecution>(program, std::move(flight.operands), tag, *transport_, pool_);
    flight.moved = Clock::now();
  }
}

/// What goes wrong here is an error of all ranks.
bool Communicator::advance(Flight& flight) {
  try {
    return flight.execution->advance();
  } catch (const Error& error) {
    fail_all(fmt::format("{}, operation {}, {}: {}", name_of_rank(rank()), flight.ticket, describe(flight), error.what()));
  }
}

void Communicator::advance_all() {
  bool ended = false;
  for (Flight& flight : flights_) {
    if (flight.done || !flight.execution) continue;
    flight.done = advance(flight);
    if (flight.done) flight.execution.reset();
    ended |= flight.done;
  }
  if (ended) begin_next();
}

void Communicator::wait(Ticket ticket) { wait_for(ticket, true); }

std::deque<Communicator::Flight>::iterator Communicator::find(Ticket ticket) {
  const auto flight = std::find_if(flights_.begin(), flights_.end(), [&](const Flight& f) { return f.ticket == ticket; });
  require(flight != flights_.end(), "an operation is asked for that was not started, or waited for before");
  return flight;
}

bool Communicator::done(Ticket ticket) {
  return locked([&] {
    const auto flight = find(ticket);
    if (!flight->done) advance_all();
    return flight->done;
  });
}

void Communicator::wait_for(Ticket ticket, bool limited) {
  constexpr int kSpins = 200;  // looks before giving the processor to others
  for (int look = 0;; ++look) {
    const bool patient = look > kSpins;
    const bool ended = locked([&] {
      const auto flight = find(ticket);
      for (Flight& earlier : flights_) earlier.limited |= limited && earlier.ticket <= ticket;
      if (!flight->done) advance_all();
      const bool done = flight->done;
      if (done) {
        flights_.erase(flight);
        if (settings_.activity != nullptr) settings_.activity->end();
      } else if (patient) {
        watch();
      }
      return done;
    });
    if (ended) return;
    if (patient) sched_yield();
  }
}

std::string Communicator::describe(const Flight& flight) const {
  const bool on_device = flight.hash != flight.plan->hash;
  return flight.plan->describe() + (on_device ? " on the GPU" : "") + (flight.what.empty() ? "" : " (" + flight.what + ")");
}

std::string Communicator::name_of_rank(int rank) const { return fmt::format("rank {} ({})", rank, transport_->place_of(rank)); }

Notice Communicator::notice(Notice::Kind kind, const std::string& text) const {
  Notice n{.kind = kind, .from = rank(), .sequence = sequence_, .plan = 0, .text = {}};
  text.copy(n.text.data(), n.text.size() - 1);
  return n;
}

/// Looks after operations that take long: asks the others what they do, and gives up after the time allowed.
void Communicator::watch() {
  const auto now = Clock::now();
  if (now - watched_ < 20ms) return;
  watched_ = now;
  read_notices();
  for (Flight& flight : flights_) {
    if (flight.done || !flight.execution) continue;
    if (flight.execution->events() != flight.events) {
      flight.events = flight.execution->events();
      flight.moved = now;
    }
    const std::chrono::duration<double> waited = now - flight.moved;
    if (waited.count() > settings_.query_s && now - asked_ > std::chrono::duration<double>(settings_.query_s)) {
      asked_ = now;
      Notice query = notice(Notice::Kind::Query, describe(flight));
      query.sequence = flight.ticket;
      query.plan = flight.hash;
      for (int peer = 0; peer < size(); ++peer) {
        if (peer != rank()) transport_->notify(peer, query);
      }
    }
    if (waited.count() > settings_.timeout_s && flight.limited) time_out(flight);
    // Others may work for as long as they need, but then their background threads answer.
    if (waited.count() > std::max(settings_.timeout_s, 4 * settings_.query_s) && background_.joinable() && !silent_ranks().empty()) {
      time_out(flight);
    }
  }
}

void Communicator::read_notices() {
  while (const auto arrived = transport_->next_notice()) {
    Peer& peer = peers_[static_cast<std::size_t>(arrived->from)];
    peer.heard = Clock::now();
    reported_ |= arrived->kind == Notice::Kind::Reported;
    if (arrived->kind == Notice::Kind::Abort) {
      aborted_ = true;
      fail("{} stopped: {}", name_of_rank(arrived->from), arrived->text.data());
    }
    peer.sequence = std::max(peer.sequence, arrived->sequence);
    if (arrived->kind == Notice::Kind::Query) answer(*arrived);
  }
}

void Communicator::answer(const Notice& query) {
  if (query.sequence > sequence_) {
    open_queries_.push_back(query);
  } else {
    compare(query);
  }
  transport_->notify(query.from, notice(Notice::Kind::Status, ""));
}

/// An operation of another rank against the one of the same number here.
void Communicator::compare(const Notice& query) {
  const auto mine = std::find_if(past_.begin(), past_.end(), [&](const Past& p) { return p.sequence == query.sequence; });
  if (mine == past_.end() || mine->plan == query.plan) return;
  fail_all(fmt::format("operation {}{} is {} on {}, but {} on {}: all ranks must call the same operations in the same order",
                       query.sequence, step_ < 0 ? "" : fmt::format(" (step {})", step_), mine->text, name_of_rank(rank()),
                       query.text.data(), name_of_rank(query.from)));
}

bool Communicator::is_silent(const Peer& peer) const {
  return Clock::now() - peer.heard > std::chrono::duration<double>(std::max(3 * settings_.query_s, 0.5 * settings_.timeout_s));
}

std::vector<int> Communicator::silent_ranks() const {
  std::vector<int> ranks;
  for (int p = 0; p < size(); ++p) {
    if (p != rank() && is_silent(peers_[static_cast<std::size_t>(p)])) ranks.push_back(p);
  }
  return ranks;
}

void Communicator::time_out(const Flight& flight) {
  // Whom the others wait for: ranks that have not come to this operation, or do not even answer.
  std::string names;
  const auto add = [&](int peer, const std::string& how) {
    names += fmt::format("{}{} {}", names.empty() ? "" : "; ", name_of_rank(peer), how);
  };
  for (const int p : silent_ranks()) add(p, "does not answer");
  for (int p = 0; p < size() && flight.limited; ++p) {
    const Peer& peer = peers_[static_cast<std::size_t>(p)];
    if (p == rank() || is_silent(peer) || peer.sequence >= flight.ticket) continue;
    add(p, fmt::format("has come to operation {} only", peer.sequence));
  }
  if (names.empty()) {
    for (const int p : flight.execution->waiting_for()) add(p, "sends nothing");
  }
  fail_all(fmt::format("{} waited {} s for operation {}, {}{}: {}; see what that rank is doing, or raise comm.timeout_s",
                       name_of_rank(rank()), settings_.timeout_s, flight.ticket, describe(flight),
                       step_ < 0 ? "" : fmt::format(" at step {}", step_), names));
}

void Communicator::fail_all(const std::string& why) {
  if (!std::exchange(aborted_, true)) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) transport_->notify(peer, notice(Notice::Kind::Abort, why));
    }
  }
  throw Error(why);
}

void Communicator::abort(const std::string& why) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (!aborted_ && size() > 1) fail_all(why);
  } catch (const std::exception&) {  // the caller has an error of its own to report
    end_with(std::current_exception());
  }
}

void Communicator::tell_reported() {
  const std::lock_guard lock(mutex_);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) transport_->notify(peer, notice(Notice::Kind::Reported, ""));
  }
}

bool Communicator::wait_until_reported(double seconds) {
  const auto begin = Clock::now();
  while (Clock::now() - begin < std::chrono::duration<double>(seconds)) {
    {
      const std::lock_guard lock(mutex_);
      while (const auto arrived = transport_->next_notice()) reported_ |= arrived->kind == Notice::Kind::Reported;
      if (reported_) return true;
    }
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

void Communicator::configure(const Settings& settings) {
  const std::lock_guard lock(mutex_);
  settings_ = settings;
  plans_.clear();
}

void Communicator::set_cost(const CostModel& cost) {
  cost_ = cost;
  plans_.clear();
}

void Communicator::set_step(std::int64_t step) {
  step_ = step;
  if (settings_.activity != nullptr) settings_.activity->at_step(step);
}

void Communicator::advance_in_background() {
  if (size() == 1 || background_.joinable()) return;
  background_ = start_without_signals([this] { run_background(); });
}

void Communicator::run_background() {
  // Every look takes some microseconds from the thread that computes, so looks become rare while nothing arrives.
  constexpr std::chrono::microseconds kLeast = 50us, kMost = 500us, kIdle = 5ms;
  std::chrono::microseconds pause = kLeast;
  std::int64_t moved = 0;
  while (true) {
    bool is_busy = false;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      try {
        if (!error_) {
          advance_all();
          watch();
        }
      } catch (const std::exception&) {
        end_with(std::current_exception());
      }
      std::int64_t now = static_cast<std::int64_t>(sequence_);
      for (const Flight& flight : flights_) {
        is_busy |= !flight.done;
        now += flight.execution ? flight.execution->events() : 1;
      }
      pause = std::exchange(moved, now) != now ? kLeast : std::min(2 * pause, kMost);
    }
    std::this_thread::sleep_for(is_busy ? pause : kIdle);
  }
}

std::shared_ptr<const Plan> Communicator::cached(Collective collective, std::int64_t count, DType type, int root) {
  auto& place = plans_[{collective, count, type, root}];
  if (!place) {
    Request r = request(collective, size(), count);
    r.in_place = true;
    r.root = root;
    place = plan(std::move(r), type);
  }
  return place;
}

void Communicator::all_reduce(Tensor data, const char* what) {
  require(data.contiguous(), "all_reduce of a strided view {}", data.describe());
  wait(start(cached(Collective::AllReduce, data.count(), data.dtype(), 0), {data.dtype(), {bytes_of(data)}, bytes_of(data)}, what));
}

void Communicator::broadcast(Tensor data, int root, const char* what) {
  require(data.contiguous(), "broadcast of a strided view {}", data.describe());
  wait(start(cached(Collective::Broadcast, data.count(), data.dtype(), root), {data.dtype(), {bytes_of(data)}, bytes_of(data)}, what));
}

void Communicator::all_reduce(std::span<double> data, const char* what) {
  all_reduce(Tensor(reinterpret_cast<std::byte*>(data.data()), DType::F64, {std::ssize(data)}), what);
}

std::string Communicator::broadcast(const std::string& text, int root, const char* what) {
  double length = static_cast<double>(text.size());
  broadcast(Tensor(reinterpret_cast<std::byte*>(&length), DType::F64, {1}), root, what);
  if (length == 0) return {};
  std::vector<float> words(static_cast<std::size_t>(length + 3) / 4);  // copied as they are, whatever numbers they are
  if (rank() == root) std::memcpy(words.data(), text.data(), text.size());
  broadcast(Tensor(reinterpret_cast<std::byte*>(words.data()), DType::F32, {std::ssize(words)}), root, what);
  return {reinterpret_cast<const char*>(words.data()), static_cast<std::size_t>(length)};
}

std::vector<std::string> Communicator::all_gather(const std::string& text, const char* what) {
  const auto n = static_cast<std::size_t>(size());
  std::vector<double> lengths(n, 0);
  lengths[static_cast<std::size_t>(rank())] = static_cast<double>(text.size());
  all_reduce(lengths, what);
  Request r = request(Collective::AllGather, size(), 0);
  for (std::size_t p = 0; p < n; ++p) r.bounds[p + 1] = r.bounds[p] + (static_cast<std::int64_t>(lengths[p]) + 3) / 4;
  r.count = r.bounds.back();
  r.in_place = true;
  std::vector<float> words(static_cast<std::size_t>(r.count));  // copied as they are, whatever numbers they are
  const auto text_of = [&](std::size_t p) { return reinterpret_cast<char*>(words.data() + r.bounds[p]); };
  text.copy(text_of(static_cast<std::size_t>(rank())), text.size());
  std::byte* bytes = reinterpret_cast<std::byte*>(words.data());
  wait(start(plan(r, DType::F32), {.type = DType::F32, .inputs = {bytes}, .output = bytes}, what));
  std::vector<std::string> texts;
  for (std::size_t p = 0; p < n; ++p) texts.emplace_back(text_of(p), static_cast<std::size_t>(lengths[p]));
  return texts;
}

void Communicator::barrier(const char* what, bool limited) {
  double nothing = 0;
  std::byte* data = reinterpret_cast<std::byte*>(&nothing);
  wait_for(start(cached(Collective::AllReduce, 1, DType::F64, 0), {DType::F64, {data}, data}, what), limited);
}

}  // namespace oxrse::comm

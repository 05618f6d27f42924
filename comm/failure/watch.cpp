#include "comm/failure/watch.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "comm/failure/sockets.h"
#include "engine/core/error.h"

namespace oxrse::comm::guard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{3};         // for the top of the tree to answer
constexpr std::chrono::milliseconds kSettling{500};  // for the deaths that one death causes, which may be heard of before it
constexpr std::size_t kNamed = 3;                    // deaths that are told one by one

/// Between guards.
struct Word {
  enum class Kind : std::uint8_t {
    Hello,    // from below: this is rank `rank`, called `text`
    Welcome,  // the answer: whatever happens from now on, you are told
    Report,   // up: `text` has happened
    Stop,     // down: end your rank
    Left      // this rank has ended well
  };
  Kind kind = Kind::Hello;
  bool graceful = false;  // Report, Stop: ranks know already and are about to end
  std::int32_t rank = 0;
  std::uint64_t token = 0;
  std::int64_t time = 0;  // Report: when it happened, in nanoseconds of the machines' clocks
  std::array<char, 800> text{};
};

std::int64_t time_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// What a guard has seen happen.
struct Event {
  std::int64_t time = 0;  // nanoseconds of the machine's clock
  std::string text;
};

/// A neighbour in the tree.
struct Neighbour {
  Socket connection;
  std::string name;
  bool above = false;
};

class Watch {
 public:
  Watch(int control, pid_t rank, std::string name, const Activity& activity, std::chrono::milliseconds grace)
      : control_(control), rank_(rank), name_(std::move(name)), activity_(activity), grace_(grace) {}

  void run() {
    while (!over_) {
      wait_for_news();
      if (!over_ && settled_ && Clock::now() >= *settled_) stop(false);
      if (!over_ && deadline_ && Clock::now() >= *deadline_) end_rank();
    }
  }

 private:
  void wait_for_news();
  void read_order();
  void listen(bool local);
  void join(const GuardPlace& place);
  void await_welcome(int above) const;
  void answer(const std::string& problem, std::uint16_t port = 0) const;
  void admit();
  void read_word(std::size_t which);
  void lost(std::size_t which);
  void report(const std::string& text, bool graceful, std::int64_t time = time_now());
  void print_events();
  void stop(bool graceful);
  void end_rank();
  [[nodiscard]] Word word(Word::Kind kind, const std::string& text = "", bool graceful = false) const;
  static void say(const Neighbour& to, const Word& word) { send_all(to.connection.descriptor(), &word, sizeof word); }

  Socket control_;  // closed when the rank is gone
  pid_t rank_;
  std::string name_;
  const Activity& activity_;
  std::chrono::milliseconds grace_;
  GuardPlace place_;  // until it is known, nobody from below is admitted
  Socket listening_;
  std::vector<Neighbour> neighbours_;
  bool stopping_ = false, over_ = false;
  std::vector<Event> events_;                  // at the top of the tree: what has been reported
  std::optional<Clock::time_point> settled_;   // when to print it
  std::optional<Clock::time_point> deadline_;  // when to end
};

void Watch::wait_for_news() {
  std::vector<pollfd> polled{{control_.descriptor(), POLLIN, 0}, {place_.size > 1 ? listening_.descriptor() : -1, POLLIN, 0}};
  for (const Neighbour& n : neighbours_) polled.push_back({n.connection.descriptor(), POLLIN, 0});
  int wait_ms = -1;
  for (const auto& time : {settled_, deadline_}) {
    if (!time) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*time - Clock::now());
    const int ms = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    wait_ms = wait_ms < 0 ? ms : std::min(wait_ms, ms);
  }
  if (poll(polled.data(), polled.size(), wait_ms) <= 0) return;
  if (polled[0].revents != 0) read_order();
  // From the last, because a neighbour may leave; one that an order has added is not among those polled.
  for (std::size_t i = polled.size() - 2; i-- > 0 && !over_;) {
    if (polled[i + 2].revents != 0) read_word(i);
  }
  if (polled[1].revents != 0 && !over_) admit();
}

void Watch::read_order() {
  Order order;
  const bool alive = receive_all(control_.descriptor(), &order, sizeof order);
  if (alive && order.kind == Order::Kind::Listen) return listen(order.local);
  if (alive && order.kind == Order::Kind::Join) return join(order.place);
  control_ = Socket();
  if (stopping_) {
    over_ = true;
  } else if (alive && order.kind == Order::Kind::Done) {
    over_ = true;
    for (const Neighbour& n : neighbours_) say(n, word(Word::Kind::Left));
  } else if (alive) {
    report("", true);
  } else {
    report(fmt::format("{} died {}", name_, activity_.describe()), false);
  }
}

void Watch::listen(bool local) {
  try {
    std::uint16_t port = 0;
    listening_ = listen_anywhere(local, port);
    answer("", port);
  } catch (const Error& error) {
    answer(error.what());
  }
}

void Watch::join(const GuardPlace& place) {
  place_ = place;
  try {
    if (place.rank > 0) {
      neighbours_.push_back({connect_to(place.parent), fmt::format("rank {}", (place.rank - 1) / 2), true});
      say(neighbours_.back(), word(Word::Kind::Hello, name_));
      await_welcome(neighbours_.back().connection.descriptor());
    }
    answer("");
  } catch (const Error& error) {
    neighbours_.clear();
    answer(error.what());
  }
}

/// The guard above may have been told of its place later than this one. It must know of this one before it may end.
void Watch::await_welcome(int above) const {
  pollfd polled[] = {{above, POLLIN, 0}, {control_.descriptor(), POLLIN, 0}};  // the rank waits, so news of it is that it has died
  constexpr std::chrono::milliseconds kLate = std::chrono::seconds(30);
  poll(polled, 2, static_cast<int>(kLate.count()));
  if (polled[1].revents != 0) return;
  Word word;
  require(polled[0].revents != 0 && receive_all(above, &word, sizeof word) && word.kind == Word::Kind::Welcome, "it does not answer");
}

void Watch::answer(const std::string& problem, std::uint16_t port) const {
  Answer answer{.port = port};
  problem.copy(answer.problem.data(), answer.problem.size() - 1);
  send_all(control_.descriptor(), &answer, sizeof answer);
}

/// A guard from below, or a stranger.
void Watch::admit() {
  Socket connection = accept_one(listening_);
  Word hello;
  if (!connection.is_open() || !receive_all(connection.descriptor(), &hello, sizeof hello)) return;
  if (hello.token != place_.token || hello.kind != Word::Kind::Hello) return;
  neighbours_.push_back({std::move(connection), hello.text.data(), false});
  say(neighbours_.back(), word(Word::Kind::Welcome));
}

void Watch::read_word(std::size_t which) {
  Word word;
  if (!receive_all(neighbours_[which].connection.descriptor(), &word, sizeof word)) return lost(which);
  if (word.kind == Word::Kind::Report) report(word.text.data(), word.graceful, word.time);
  if (word.kind == Word::Kind::Stop) stop(word.graceful);
  if (word.kind == Word::Kind::Left) neighbours_.erase(neighbours_.begin() + static_cast<std::ptrdiff_t>(which));
}

/// A guard ends without a word only with its machine, or when somebody kills it.
void Watch::lost(std::size_t which) {
  const std::string name = neighbours_[which].name;
  neighbours_.erase(neighbours_.begin() + static_cast<std::ptrdiff_t>(which));
  if (!control_.is_open()) return stop(false);  // this rank's end has been reported
  report(fmt::format("{} is not reached from {} any more, {}: its machine or its guard process is gone", name, name_, activity_.describe()),
         false);
}

/// Something has happened: to the top of the tree, where what happens together is printed once, the earliest first, and from there to all.
/// (A rank that its launcher or its MPI library ends because another one died is not what to look for.) A guard whose rank is gone stays
/// for that long, so that those below it hear of it too.
void Watch::report(const std::string& text, bool graceful, std::int64_t time) {
  if (stopping_) return;
  const auto above = std::find_if(neighbours_.begin(), neighbours_.end(), [](const Neighbour& n) { return n.above; });
  if (above != neighbours_.end()) {
    if (!control_.is_open()) deadline_ = Clock::now() + kPatience;
    Word report = word(Word::Kind::Report, text, graceful);
    report.time = time;
    return say(*above, report);
  }
  if (text.empty()) return stop(graceful);
  if (events_.empty()) settled_ = Clock::now() + kSettling;
  events_.push_back({time, text});
}

/// The first death is usually the cause of the others, but the next ones are named too: what is known is when guards noticed, and a rank
/// whose MPI library gives up because its peer is gone can end before the guard of that peer has noticed anything.
void Watch::print_events() {
  if (events_.empty()) return;
  std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
  std::string lines =
      fmt::format("error: {}; all ranks end. The same command again goes on from the last checkpoint\n", events_.front().text);
  for (std::size_t i = 1; i < std::min(events_.size(), kNamed); ++i) {
    const double later_ms = static_cast<double>(events_[i].time - events_[0].time) * 1e-6;
    lines += fmt::format("       {:.1f} ms later: {}\n", later_ms, events_[i].text);
  }
  if (events_.size() > kNamed) lines += fmt::format("       and {} more\n", events_.size() - kNamed);
  if (events_.size() > 1) lines += "       The first to be noticed is not always the cause of the others.\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, lines.data(), lines.size());
}

void Watch::stop(bool graceful) {
  if (stopping_) return;
  stopping_ = true;
  settled_.reset();
  print_events();
  for (const Neighbour& n : neighbours_) {
    if (!n.above) say(n, word(Word::Kind::Stop, "", graceful));
  }
  deadline_ = Clock::now() + (graceful && control_.is_open() ? grace_ : std::chrono::milliseconds(0));
}

void Watch::end_rank() {
  over_ = true;
  if (control_.is_open() && getppid() == rank_) kill(rank_, SIGKILL);
}

Word Watch::word(Word::Kind kind, const std::string& text, bool graceful) const {
  Word word{.kind = kind, .graceful = graceful, .rank = place_.rank, .token = place_.token, .time = 0, .text = {}};
  text.copy(word.text.data(), word.text.size() - 1);
  return word;
}

/// Leaves the launcher's group and all it was given but the standard error.
void detach(int control) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "oxrse-guard");
  const int last = static_cast<int>(std::min<long>(sysconf(_SC_OPEN_MAX), 65536));
  for (int d = 0; d < last; ++d) {
    if (d != STDERR_FILENO && d != control) close(d);
  }
}

}  // namespace

void watch(int control, pid_t rank, const std::string& name, const Activity& activity, std::chrono::milliseconds grace) {
  detach(control);
  Watch(control, rank, name, activity, grace).run();
}

}  // namespace oxrse::comm::guard

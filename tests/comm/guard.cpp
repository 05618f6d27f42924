// Guards of ranks that are processes of this test.

#include "comm/failure/guard.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/core/error.h"
#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::comm;
using Catch::Matchers::Contains;
using namespace std::chrono_literals;

namespace {

constexpr int kRanks = 4;  // two levels below the first

/// What the processes share.
struct Board {
  std::array<GuardAddress, kRanks> addresses;
  std::atomic<int> listening = 0, joined = 0;
};

void wait_until(const std::function<bool()>& true_now) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (!true_now()) {
    if (std::chrono::steady_clock::now() > end) throw Error("nothing happens");
    std::this_thread::sleep_for(2ms);
  }
}

class Ranks {
 public:
  explicit Ranks(const std::function<void(int rank, Guard&)>& body) {
    void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = new (memory) Board;
    REQUIRE(pipe2(error_, O_CLOEXEC) == 0);
    for (int r = 0; r < kRanks; ++r) {
      const pid_t child = fork();
      if (child == 0) run(r, body);
      processes_.push_back(child);
    }
    close(error_[1]);
    wait_until([&] { return board_->joined == kRanks; });
  }
  ~Ranks() { munmap(board_, sizeof(Board)); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] pid_t process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::uint16_t port(int rank) const { return board_->addresses[static_cast<std::size_t>(rank)].port; }
  /// How all ended: exit codes, or minus the signal.
  [[nodiscard]] std::vector<int> ends() const {
    std::vector<int> ends;
    for (const pid_t process : processes_) {
      int status = 0;
      waitpid(process, &status, 0);
      ends.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    return ends;
  }
  /// What guards printed. Ends when all of them have ended.
  [[nodiscard]] std::string printed() const {
    std::string text;
    char buffer[1000];
    for (ssize_t n = 0; (n = read(error_[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
    close(error_[0]);
    return text;
  }

 private:
  [[noreturn]] void run(int rank, const std::function<void(int, Guard&)>& body) {
    dup2(error_[1], STDERR_FILENO);
    close(error_[1]);
    try {
      Guard guard(fmt::format("rank {}", rank), 300ms);
      board_->addresses[static_cast<std::size_t>(rank)] = guard.listen(true);
      ++board_->listening;
      wait_until([&] { return board_->listening == kRanks; });
      GuardPlace place{.rank = rank, .size = kRanks, .token = 4711, .parent = {}};
      if (rank > 0) place.parent = board_->addresses[static_cast<std::size_t>((rank - 1) / 2)];
      require(guard.join(place).empty(), "not joined");
      guard.activity().at_step(7);
      guard.activity().begin(48, "the last sum");
      ++board_->joined;
      wait_until([&] { return board_->joined == kRanks; });
      body(rank, guard);
    } catch (const std::exception&) {
      _exit(1);
    }
    _exit(0);
  }

  Board* board_ = nullptr;
  int error_[2] = {-1, -1};
  std::vector<pid_t> processes_;
};

void go_on_for_ever(int /*rank*/, Guard& /*guard*/) {
  while (true) pause();
}

}  // namespace

TEST_CASE("when a rank dies, it is named once and all others end", "[guard]") {
  for (int victim = 0; victim < kRanks; ++victim) {
    const Ranks ranks(go_on_for_ever);
    kill(ranks.process(victim), SIGKILL);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(ranks.ends() == std::vector<int>(kRanks, -SIGKILL));
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    CHECK_THAT(ranks.printed(),
               Catch::Matchers::Equals(fmt::format("error: rank {} died at step 7, in operation 48, the last sum; all ranks end. The same "
                                                   "command again goes on from the last checkpoint\n",
                                                   victim)));
  }
}

TEST_CASE("a launcher that kills all ranks is one error, not one a rank", "[guard]") {
  const Ranks ranks(go_on_for_ever);
  for (int r = 0; r < kRanks; ++r) kill(ranks.process(r), SIGKILL);
  CHECK(ranks.ends() == std::vector<int>(kRanks, -SIGKILL));
  const std::string printed = ranks.printed();
  INFO(printed);
  CHECK(printed.starts_with("error: rank "));
  CHECK(std::count(printed.begin(), printed.end(), '\n') == 5);  // the first, two more, how many, and what that means
  CHECK_THAT(printed, Catch::Matchers::Contains(fmt::format("and {} more\n", kRanks - 3)));
}

TEST_CASE("of two deaths the earlier is named, even when news of it comes later", "[guard]") {
  const Ranks ranks(go_on_for_ever);
  pid_t between = 0;  // the guard of rank 1, through which rank 0 hears of rank 3
  std::ifstream(fmt::format("/proc/{0}/task/{0}/children", ranks.process(1))) >> between;
  REQUIRE(between > 0);
  kill(between, SIGSTOP);
  kill(ranks.process(3), SIGKILL);
  std::this_thread::sleep_for(20ms);
  kill(ranks.process(0), SIGKILL);
  std::this_thread::sleep_for(20ms);
  kill(between, SIGCONT);
  CHECK(ranks.ends() == std::vector<int>(kRanks, -SIGKILL));
  CHECK_THAT(ranks.printed(),
             Catch::Matchers::StartsWith("error: rank 3 died at step 7") && Catch::Matchers::Contains("ms later: rank 0 died"));
}

TEST_CASE("ranks that end well, one long before the others, leave no word", "[guard]") {
  const Ranks ranks([](int rank, Guard& /*guard*/) { std::this_thread::sleep_for(rank * 100ms); });
  CHECK(ranks.ends() == std::vector<int>(kRanks, 0));
  CHECK_THAT(ranks.printed(), Catch::Matchers::Equals(""));
}

TEST_CASE("a rank that fails says so itself; the others have a while to end and are then ended", "[guard]") {
  const auto begin = std::chrono::steady_clock::now();
  const Ranks ranks([](int rank, Guard& guard) {
    if (rank == 3) throw Error("no disk is left");
    if (rank == 1) return std::this_thread::sleep_for(100ms);
    go_on_for_ever(rank, guard);
  });
  CHECK(ranks.ends() == std::vector<int>{-SIGKILL, 0, -SIGKILL, 1});
  CHECK(std::chrono::steady_clock::now() - begin > 300ms);
  CHECK_THAT(ranks.printed(), Catch::Matchers::Equals(""));
}

TEST_CASE("strangers at a guard's port change nothing", "[guard]") {
  const Ranks ranks([](int /*rank*/, Guard& /*guard*/) { std::this_thread::sleep_for(500ms); });
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{10}, std::size_t{100000}}) {
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(ranks.port(0));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(stranger, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    const std::string garbage(bytes, '\1');
    CHECK(send(stranger, garbage.data(), bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
    close(stranger);
  }
  CHECK(ranks.ends() == std::vector<int>(kRanks, 0));
  CHECK_THAT(ranks.printed(), Catch::Matchers::Equals(""));
}

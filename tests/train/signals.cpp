#include "engine/train/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "tests/catch.h"

using namespace oxrse;

namespace {

/// Puts the calling thread's mask and the handlers back as they were.
class SignalsAsBefore {
 public:
  SignalsAsBefore() {
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &actions_[i]);
  }
  ~SignalsAsBefore() {
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);  // first, so that what is pending meets the handler
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_[i], nullptr);
  }
  SignalsAsBefore(const SignalsAsBefore&) = delete;
  SignalsAsBefore& operator=(const SignalsAsBefore&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE, SIGXFSZ};
  sigset_t mask_ = {};
  std::array<struct sigaction, kSignals.size()> actions_ = {};
};

bool blocks(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

}  // namespace

// A handler on a thread inside a generated kernel once overwrote the heap: "corrupted size vs. prev_size".
TEST_CASE("signals are taken, but never by a thread that computes", "[train]") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGUSR1);
  const SignalsAsBefore as_before;
  {
    const train::StopRequests stop;
    CHECK(train::StopRequests::pending() == nullptr);
    CHECK(blocks(signal));
    bool new_thread_blocks = false;
    std::thread([&] { new_thread_blocks = blocks(signal); }).join();
    CHECK(new_thread_blocks);
    kill(getpid(), signal);
    for (int i = 0; i < 1000 && train::StopRequests::pending() == nullptr; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    REQUIRE(train::StopRequests::pending() != nullptr);
    const std::string name = train::StopRequests::pending();
    CHECK(name == (signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : signal == SIGHUP ? "SIGHUP" : "SIGUSR1"));
    kill(getpid(), signal);  // many launchers send it twice
  }
  kill(getpid(), signal);  // and some while the process ends
}

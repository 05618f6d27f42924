#include "engine/train/signals.h"

#include <pthread.h>

#include <array>
#include <csignal>
#include <ctime>

namespace oxrse::train {
namespace {

volatile std::sig_atomic_t received = 0;
volatile std::time_t received_at = 0;

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
// Launchers such as srun and timeout may deliver one Ctrl-C twice, at the same moment.
constexpr std::time_t kSecondsBetweenInterrupts = 2;

std::time_t now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);  // may be called in a signal handler
  return time.tv_sec;
}

void on_signal(int signal) {
  if (signal == SIGINT && received == SIGINT && now() - received_at >= kSecondsBetweenInterrupts) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
    return;
  }
  if (received != 0) return;
  received = signal;
  received_at = now();
}

}  // namespace

StopRequests::StopRequests() {
  received = 0;
  sigset_t signals;
  sigemptyset(&signals);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;
    sigaddset(&signals, signal);
    sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  taker_ = std::thread([this, signals] {
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    ended_.acquire();
  });
}

/// The signals stay harmless, so that one that is sent twice does not end a process that has saved and is about to exit.
StopRequests::~StopRequests() {
  ended_.release();
  taker_.join();
}

const char* StopRequests::pending() {
  switch (received) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    case SIGUSR1: return "SIGUSR1";
    default: return nullptr;
  }
}

}  // namespace oxrse::train

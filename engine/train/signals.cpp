#include "engine/train/signals.h"

#include <array>
#include <csignal>

namespace oxrse::train {
namespace {

volatile std::sig_atomic_t received = 0;

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1};

void on_signal(int signal) {
  received = signal;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

StopRequests::StopRequests() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a save that is under way goes on
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

StopRequests::~StopRequests() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

const char* StopRequests::pending() {
  switch (received) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    default: return nullptr;
  }
}

}  // namespace oxrse::train

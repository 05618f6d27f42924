#pragma once

namespace oxrse::train {

/// While it lives, SIGINT, SIGTERM and SIGUSR1 ask the run to save and stop instead of ending the process; another SIGINT some
/// seconds later ends it at once.
class StopRequests {
 public:
  StopRequests();
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  /// The name of the signal that asked to stop ("SIGTERM"), or nullptr.
  [[nodiscard]] static const char* pending();
};

}  // namespace oxrse::train

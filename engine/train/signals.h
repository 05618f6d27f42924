#pragma once

#include <semaphore>
#include <thread>

namespace oxrse::train {

/// From here on SIGINT, SIGTERM, SIGHUP and SIGUSR1 ask the run to save and stop instead of ending the process; another SIGINT some
/// seconds later ends it at once. SIGHUP stays ignored where it was (nohup); a reader of the output that went away (SIGPIPE) does not
/// end a run, and a file-size limit (SIGXFSZ) is an error of the write. Make it before the first thread that computes, once in a process.
///
/// The thread that makes it, and all that it starts later, block these signals, and one thread does nothing but take them: no handler
/// may run on a thread that computes. oneDNN's generated kernels use the stack pointer as an ordinary register, so the frame of a
/// handler would be written over the data it points at.
class StopRequests {
 public:
  StopRequests();
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  /// The name of the signal that asked to stop ("SIGTERM"), or nullptr.
  [[nodiscard]] static const char* pending();

 private:
  std::binary_semaphore ended_{0};
  std::thread taker_;
};

}  // namespace oxrse::train

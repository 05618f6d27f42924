#pragma once

#include <memory>

#include "comm/transport/transport.h"

namespace oxrse::comm {

/// Ranks that are threads of one process. A message is copied once, by its receiver.
class ThreadGroup {
 public:
  explicit ThreadGroup(int ranks);
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  /// The transport of a rank; it must not outlive the group.
  std::unique_ptr<Transport> join(int rank);

 private:
  friend class ThreadTransport;
  struct Mailbox;
  std::unique_ptr<Mailbox[]> mailboxes_;  // of each rank
  int ranks_;
};

}  // namespace oxrse::comm

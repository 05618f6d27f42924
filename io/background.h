#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace oxrse::io {

/// A thread that does one piece of work at a time. It takes over the blocked signals of the thread that makes it.
class Background {
 public:
  Background();
  /// Waits for the work to end.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Gives it work. It must be idle, and the end of earlier work must have been seen by `wait`.
  void start(std::function<void()> work);
  /// Whether work is going on.
  [[nodiscard]] bool busy() const;
  /// Waits until the work has ended, and throws what it threw.
  void wait();

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // empty: idle
  std::exception_ptr failure_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace oxrse::io

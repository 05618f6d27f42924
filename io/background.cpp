#include "io/background.h"

#include <utility>

#include "engine/core/error.h"

namespace oxrse::io {

Background::Background() : thread_([this] { run(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::start(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  require(!work_ && !failure_, "work was given to a thread that has not ended its last");
  work_ = std::move(work);
  changed_.notify_all();
}

bool Background::busy() const {
  const std::lock_guard lock(mutex_);
  return static_cast<bool>(work_);
}

void Background::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !work_; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Background::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return work_ || ending_; });
    if (!work_) return;
    lock.unlock();  // nobody touches work_ until it is empty
    std::exception_ptr failure;
    try {
      work_();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace oxrse::io

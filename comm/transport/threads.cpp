#include "comm/transport/threads.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/core/error.h"

namespace oxrse::comm {
namespace {

struct Message {
  int from = 0;
  Tag tag;
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;
  std::shared_ptr<std::atomic<bool>> taken;
};

}  // namespace

struct ThreadGroup::Mailbox {
  std::mutex mutex;
  std::deque<Message> messages;
  std::deque<Notice> notices;
  std::atomic<std::int64_t> arrived = 0, notified = 0;  // how many ever, to see without the lock whether there is news
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return group_.ranks_; }
  [[nodiscard]] std::string place_of(int rank) const override { return fmt::format("thread {} of process {}", rank, getpid()); }

  Transfer send(int peer, const Tag& tag, const std::byte* data, std::int64_t bytes) override {
    auto taken = std::make_shared<std::atomic<bool>>(false);
    sends_.emplace(++last_, taken);
    ThreadGroup::Mailbox& box = group_.mailboxes_[static_cast<std::size_t>(peer)];
    const std::lock_guard lock(box.mutex);
    box.messages.push_back({rank_, tag, data, bytes, std::move(taken)});
    ++box.arrived;
    return {last_};
  }

  Transfer receive(int peer, const Tag& tag, std::byte* data, std::int64_t bytes) override {
    receives_.push_back({++last_, peer, tag, data, bytes});
    news_ = -1;
    return {last_};
  }

  bool done(Transfer transfer) override {
    if (const auto send = sends_.find(transfer.id); send != sends_.end()) {
      if (!send->second->load(std::memory_order_acquire)) return false;
      sends_.erase(send);
      return true;
    }
    take_messages();
    return std::none_of(receives_.begin(), receives_.end(), [&](const Receive& r) { return r.id == transfer.id; });
  }

  void cancel(Transfer transfer) noexcept override {
    receives_.remove_if([&](const Receive& r) { return r.id == transfer.id; });
    const auto send = sends_.find(transfer.id);
    if (send == sends_.end()) return;
    if (!withdraw(send->second)) send->second->wait(false, std::memory_order_acquire);
    sends_.erase(send);
  }

  void notify(int peer, const Notice& notice) override {
    ThreadGroup::Mailbox& box = group_.mailboxes_[static_cast<std::size_t>(peer)];
    const std::lock_guard lock(box.mutex);
    box.notices.push_back(notice);
    ++box.notified;
  }

  std::optional<Notice> next_notice() override {
    ThreadGroup::Mailbox& box = group_.mailboxes_[static_cast<std::size_t>(rank_)];
    if (box.notified == read_notices_) return std::nullopt;
    const std::lock_guard lock(box.mutex);
    ++read_notices_;
    const Notice notice = box.notices.front();
    box.notices.pop_front();
    return notice;
  }

 private:
  struct Receive {
    std::uint64_t id = 0;
    int peer = 0;
    Tag tag;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };

  /// Takes back a message that nobody has begun to copy; false if somebody has.
  bool withdraw(const std::shared_ptr<std::atomic<bool>>& message) {
    for (int peer = 0; peer < size(); ++peer) {
      ThreadGroup::Mailbox& box = group_.mailboxes_[static_cast<std::size_t>(peer)];
      const std::lock_guard lock(box.mutex);
      if (std::erase_if(box.messages, [&](const Message& m) { return m.taken == message; }) > 0) return true;
    }
    return false;
  }

  /// Copies what has arrived to the first receive that waits for it.
  void take_messages() {
    ThreadGroup::Mailbox& box = group_.mailboxes_[static_cast<std::size_t>(rank_)];
    if (box.arrived == news_) return;
    std::vector<std::pair<Message, Receive>> matched;
    {
      const std::lock_guard lock(box.mutex);
      news_ = box.arrived;
      for (auto message = box.messages.begin(); message != box.messages.end();) {
        const auto receive = std::find_if(receives_.begin(), receives_.end(), [&](const Receive& r) {
          return r.peer == message->from && r.tag.sequence == message->tag.sequence && r.tag.plan == message->tag.plan;
        });
        if (receive == receives_.end()) {
          ++message;
          continue;
        }
        matched.emplace_back(*message, *receive);
        receives_.erase(receive);
        message = box.messages.erase(message);
      }
    }
    for (const auto& [message, receive] : matched) {
      if (message.bytes == receive.bytes) std::memcpy(receive.data, message.data, static_cast<std::size_t>(message.bytes));
      message.taken->store(true, std::memory_order_release);
      message.taken->notify_all();
    }
    for (const auto& [message, receive] : matched) {
      require(message.bytes == receive.bytes, "a message of {} bytes where {} were expected", message.bytes, receive.bytes);
    }
  }

  ThreadGroup& group_;
  int rank_;
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<std::atomic<bool>>> sends_;
  std::list<Receive> receives_;
  std::int64_t news_ = 0;  // what `arrived` was when the mailbox was last looked through; -1: look again
  std::int64_t read_notices_ = 0;
};

ThreadGroup::ThreadGroup(int ranks) : mailboxes_(std::make_unique<Mailbox[]>(static_cast<std::size_t>(ranks))), ranks_(ranks) {}
ThreadGroup::~ThreadGroup() = default;

std::unique_ptr<Transport> ThreadGroup::join(int rank) { return std::make_unique<ThreadTransport>(*this, rank); }

}  // namespace oxrse::comm

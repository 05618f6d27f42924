#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace oxrse::comm {

/// Which operation a message belongs to. Messages of different operations, and of the same when ranks do not agree about it, never match.
struct Tag {
  std::uint64_t sequence = 0;  // operations that are in flight together have different numbers
  std::uint64_t plan = 0;      // hash of everything that ranks must agree about
};

/// A transfer that was begun and not yet found done.
struct Transfer {
  std::uint64_t id = 0;
};

/// What ranks tell each other beside the data, when something takes long or goes wrong.
struct Notice {
  enum class Kind : std::uint8_t { Query, Status, Abort, Reported };
  Kind kind = Kind::Query;
  std::int32_t from = 0;
  std::uint64_t sequence = 0;  // of the operation the sender is at
  std::uint64_t plan = 0;
  std::array<char, 1000> text{};  // what that operation is; of an Abort: why
};

/// Moves bytes between the ranks of a group. Calls come from one thread at a time. Messages between two ranks with equal tags arrive in the
/// order they were sent; memory stays untouched and valid until `done`.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// "host n1, process 4711" of a rank.
  [[nodiscard]] virtual std::string place_of(int rank) const = 0;

  virtual Transfer send(int peer, const Tag& tag, const std::byte* data, std::int64_t bytes) = 0;
  virtual Transfer receive(int peer, const Tag& tag, std::byte* data, std::int64_t bytes) = 0;
  /// Whether a transfer has ended; its Transfer must not be used again then.
  virtual bool done(Transfer transfer) = 0;
  /// Gives up a transfer that has not ended, for a rank that stops: its memory is not touched afterwards. What it was to receive is lost.
  /// The other rank may be taking what is sent, and gets a moment for that.
  virtual void cancel(Transfer transfer) noexcept = 0;

  virtual void notify(int peer, const Notice& notice) = 0;
  /// The next notice that has arrived, if there is one.
  virtual std::optional<Notice> next_notice() = 0;
};

}  // namespace oxrse::comm

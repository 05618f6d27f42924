#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "comm/failure/guard.h"

// Connections between guards.
namespace oxrse::comm::guard {

/// A socket that is closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// A socket that takes connections at a port of the system's choice, from this machine alone if `local`. An Error if there is none.
Socket listen_anywhere(bool local, std::uint16_t& port);

/// Host and interfaces of this machine, no port yet.
GuardAddress this_machine();

/// A connection to whoever listens at the address. An Error with all that was tried.
Socket connect_to(const GuardAddress& address);

/// The next connection to a listening socket; closed if there is none.
Socket accept_one(const Socket& listening);

/// Whole messages of a fixed size. False when the connection has ended or stood still for seconds.
bool send_all(int descriptor, const void* data, std::size_t bytes);
bool receive_all(int descriptor, void* data, std::size_t bytes);

}  // namespace oxrse::comm::guard

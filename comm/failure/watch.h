#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "comm/failure/guard.h"

// What Guard and its second process say to each other; only they include this.
namespace oxrse::comm::guard {

/// From a rank to its guard. It ends, and the end of the connection without one of the last two means that the rank died.
struct Order {
  enum class Kind : std::uint8_t { Listen, Join, Done, Failed };
  Kind kind = Kind::Listen;
  bool local = false;  // Listen
  GuardPlace place;    // Join
};

/// The answer to Listen and Join.
struct Answer {
  std::uint16_t port = 0;
  std::array<char, 200> problem{};  // why it failed
};

/// The work of the guard's process: watches the process `rank`, called `name`, at the other end of `control` until it has ended.
void watch(int control, pid_t rank, const std::string& name, const Activity& activity, std::chrono::milliseconds grace);

}  // namespace oxrse::comm::guard

#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "comm/failure/activity.h"

namespace oxrse::comm {

/// Where the guard of a rank is reached.
struct GuardAddress {
  std::array<char, 64> host{};
  std::array<std::uint32_t, 4> ipv4{};  // of the machine's interfaces, in network order; 0 ends them
  std::uint16_t port = 0;
};

/// The place of a guard among those of all ranks, a binary tree: rank r stands below (r - 1) / 2.
struct GuardPlace {
  std::int32_t rank = 0, size = 1;
  std::uint64_t token = 0;  // known to the guards of this run only
  GuardAddress parent;      // of rank 0: nothing
};

/// A second process beside a rank that outlives it, however it ends. When a rank dies, its guard knows at once, because the system closes
/// their connection, and tells the others over a tree of connections: the guard of rank 0 prints who died, where and in which operation,
/// and every guard ends its own rank. Launchers end the others by themselves only sometimes (mpirun does; srun on request), and name
/// neither rank nor operation.
///
/// When a rank ends with an error, it prints that itself, and the others have `grace` to save and end by themselves.
class Guard {
 public:
  static constexpr std::chrono::seconds kGrace{30};

  /// `name` is what messages call this rank. Forks, so make it as early as possible. The new process is of a session of its own, so that
  /// neither the terminal's Ctrl-C nor a launcher that ends the rank's process group reaches it; it ends with the rank.
  explicit Guard(const std::string& name, std::chrono::milliseconds grace = kGrace);
  /// Tells the guard that this rank has ended: well, or with the exception that is on its way.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// What the guard reports when this rank dies.
  [[nodiscard]] Activity& activity() { return *activity_; }

  /// Makes the guard reachable, from other machines too unless `local`.
  GuardAddress listen(bool local);
  /// Joins the guard with the others. Returns why that failed, or "".
  std::string join(const GuardPlace& place);

 private:
  int control_ = -1;
  Activity* activity_ = nullptr;
};

}  // namespace oxrse::comm

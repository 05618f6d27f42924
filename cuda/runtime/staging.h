#pragma once

#include <cstddef>
#include <vector>

#include "cuda/runtime/handle.h"

namespace oxrse::cuda {

/// Pinned memory of the host that copies to the device are made from. A copy may be made long after it was asked for (a graph makes it when
/// it is launched), so what was taken stays until `reset`.
class Staging {
 public:
  explicit Staging(Api& api) : api_(api) {}

  /// `bytes` bytes, aligned to 256.
  std::byte* take(std::size_t bytes);
  /// All copies have been made.
  void reset();

  static constexpr std::size_t kBlock = std::size_t{1} << 20;  // the least that is allocated at once

 private:
  Api& api_;
  std::vector<Buffer> blocks_;  // kept for the next steps
  std::size_t block_ = 0;       // which one is in use
  std::size_t used_ = 0;        // bytes of it
};

}  // namespace oxrse::cuda

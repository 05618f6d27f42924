#pragma once

#include <string_view>

namespace oxrse {

/// What this binary is and what was left out of it.
struct BuildInfo {
  std::string_view version;     // "0.1.0"
  std::string_view commit;      // abbreviated; "-dirty" behind it with uncommitted changes; "unknown" outside of a git checkout
  std::string_view compiler;    // "GNU 12.2.0"
  std::string_view build_type;  // "Release", ...
  std::string_view march;       // gcc's -march
  std::string_view sanitizers;  // "address,undefined", "thread", ""
  std::string_view source_dir;  // where it was built from
  std::string_view onednn;      // "built in: 2.6.3" or "left out: why"
  std::string_view mpi;
  std::string_view nccl;
  std::string_view cuda;
  std::string_view cuda_emulation;
};
const BuildInfo& build_info();

}  // namespace oxrse

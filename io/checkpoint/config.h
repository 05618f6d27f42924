#pragma once

#include <cstdint>

#include "engine/core/config_field.h"

namespace oxrse::io {

/// The section "checkpoint" of a config.
struct CheckpointConfig {
  std::int64_t every = 200;
  std::int64_t keep = 3;
  bool async = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.every, Field{.key = "every", .meaning = "save after this many steps; 0: only at the end", .unit = "steps", .min = 0});
    visit(self.keep, Field{.key = "keep", .meaning = "newest checkpoints to keep; 0: all", .min = 0});
    visit(self.async, Field{.key = "async", .meaning = "write in the background while training goes on"});
  }
};

}  // namespace oxrse::io

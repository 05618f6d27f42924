#pragma once

#include <cstdint>

#include "engine/core/config_field.h"

namespace oxrse::io {

/// The section "log" of a config.
struct LogConfig {
  std::int64_t every = 10;
  bool tensorboard = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.every, Field{.key = "every", .meaning = "print a line after this many steps; 0: never", .unit = "steps", .min = 0});
    visit(self.tensorboard, Field{.key = "tensorboard", .meaning = "write event files for TensorBoard"});
  }
};

}  // namespace oxrse::io

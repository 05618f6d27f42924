#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace oxrse::io {

/// How far a long job is.
struct Progress {
  std::string_view what;  // "tokenising"
  std::string_view unit;  // "bytes", "tokens"
  std::int64_t done = 0, total = 0;
};
/// Called now and then, by one thread at a time.
using OnProgress = std::function<void(const Progress&)>;

}  // namespace oxrse::io

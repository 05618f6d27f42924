#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace oxrse {

/// The one exception of the engine. The message says what was expected, what was found and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  /// The same error with the place it happened in front: `Error("bad magic").in("tokens.bin")` reads "tokens.bin: bad magic".
  [[nodiscard]] Error in(const std::string& place) const { return Error(place + ": " + what()); }
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an Error with the formatted message unless `ok`.
template <class... Args>
void require(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) fail(format, std::forward<Args>(args)...);
}

}  // namespace oxrse

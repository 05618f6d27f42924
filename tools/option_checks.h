#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <type_traits>

namespace oxrse::tools {

/// A number from `least` to `most`, both allowed. What was typed is judged, in decimal, before it becomes a T: nothing is saturated or
/// wraps around, and NaN is refused. The help and the error say "least to most".
template <class T>
CLI::Validator between(T least, T most) {
  const std::string range = fmt::format("{} to {}", least, most);
  const auto check = [least, most, range](std::string& text) -> std::string {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || !(value >= least && value <= most)) {
      return fmt::format("expected {} from {}, found \"{}\"", std::is_integral_v<T> ? "an integer" : "a number", range, text);
    }
    text = fmt::format("{}", value);  // CLI11 would read 010 as octal
    return "";
  };
  return {check, range};
}

/// Anything but ""; `expected` says what in the error.
CLI::Validator not_empty(const std::string& expected);

/// An ECMAScript regular expression.
CLI::Validator regular_expression();

/// A file that is there and can be replaced, or that can be made in a directory that is there.
CLI::Validator writable_file();

}  // namespace oxrse::tools

#pragma once

// For clang-tidy 14, whose clang lacks the built-in that libstdc++'s <source_location> is made of (tools/lint.sh). No program is built with
// it.
#if defined(__clang__) && !__has_builtin(__builtin_source_location)

// NOLINTBEGIN(readability-identifier-naming): the standard's names
namespace std {

struct source_location {
  static constexpr source_location current(const char* file = __builtin_FILE(), const char* function = __builtin_FUNCTION(),
                                           unsigned line = __builtin_LINE()) {
    return {file, function, line};
  }
  constexpr const char* file_name() const { return file; }
  constexpr const char* function_name() const { return function; }
  constexpr unsigned line() const { return line_number; }
  constexpr unsigned column() const { return 0; }

  const char* file = "";
  const char* function = "";
  unsigned line_number = 0;
};

}  // namespace std
// NOLINTEND(readability-identifier-naming)

#endif

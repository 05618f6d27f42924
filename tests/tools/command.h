#pragma once

#include <string>

namespace oxrse::test {

struct CommandResult {
  int exit_code = -1;  // 128 + n when ended by signal n
  std::string out;
  std::string err;
};

/// Runs the built `oxrse` in an empty directory. `arguments` and what stands before the command in `environment`
/// ("A=1 B=2 timeout 3") are read by the shell.
CommandResult run_command(const std::string& arguments, const std::string& environment = "");

}  // namespace oxrse::test

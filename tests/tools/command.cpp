#include "tests/tools/command.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/io/temporary.h"

namespace oxrse::test {
namespace {

std::string contents(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

CommandResult run_command(const std::string& arguments, const std::string& environment) {
  const io::TemporaryDirectory scratch;
  const std::filesystem::path out = scratch / "out", err = scratch / "err", work = scratch / "work";
  std::filesystem::create_directory(work);
  // A command that would never end is a failure too, and leaves the other tests their time.
  const int status =
      std::system(fmt::format("cd '{}' && timeout -k 10 300 env XDG_CACHE_HOME='{}' {} '{}' {} >'{}' 2>'{}' </dev/null", work.string(),
                              (scratch / "cache").string(), environment, OXRSE_BINARY, arguments, out.string(), err.string())
                      .c_str());
  const int exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {exit_code, contents(out), contents(err)};
}

}  // namespace oxrse::test

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "engine/core/error.h"
#include "tests/tools/includes.h"

namespace oxrse::test {
namespace {

namespace fs = std::filesystem;

/// What each room may include besides itself, as far as it is not reached through another one:
/// core <- ops <- {cpu, cuda} <- nn <- {optim, parallel} <- train; core <- comm <- parallel; core <- io <- train <- benchmarks <- tools.
/// engine/ never includes cuda/, although it stands beside cpu in that order.
const std::map<std::string, std::set<std::string>> kBelow = {
    {"engine/core", {}},
    {"engine/ops", {"engine/core"}},
    {"engine/cpu", {"engine/ops"}},
    {"cuda", {"engine/ops"}},
    {"engine/nn", {"engine/cpu"}},
    {"engine/optim", {"engine/nn"}},
    {"comm", {"engine/core"}},
    {"engine/parallel", {"engine/nn", "comm"}},
    {"io", {"engine/core"}},
    {"engine/train", {"engine/optim", "engine/parallel", "io"}},
    {"benchmarks", {"engine/train", "cuda"}},
    {"tools", {"benchmarks"}},
    {"tests", {"tools"}},
};

std::set<std::string> allowed_in(const std::string& room) {
  std::set<std::string> allowed{room};
  for (const std::string& below : kBelow.at(room)) allowed.merge(allowed_in(below));
  return allowed;
}

/// "engine/nn" for "engine/nn/mlp.h", "io" for "io/data/shard.h"; empty for what is in no room.
std::string room_of(const std::string& path) {
  const auto holds = [&](const auto& room) { return path.starts_with(room.first + "/"); };
  const auto found = std::find_if(kBelow.begin(), kBelow.end(), holds);
  return found == kBelow.end() ? "" : found->first;
}

void check_file(const fs::path& root, const std::string& file, std::vector<std::string>& wrong) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*"([^"]+)\".*)");
  const std::string room = room_of(file);
  if (room.empty()) {
    wrong.push_back(fmt::format("{}: is in no room of the architecture", file));
    return;
  }
  const std::set<std::string> allowed = allowed_in(room);
  std::ifstream stream(root / file);
  std::string text;
  std::smatch match;
  for (int line = 1; std::getline(stream, text); ++line) {
    if (!std::regex_match(text, match, kInclude)) continue;
    const std::string included = match[1];
    const std::string included_room = room_of(included);
    if (included_room.empty()) {
      wrong.push_back(fmt::format("{}:{}: {} is not a path from the root", file, line, included));
    } else if (!allowed.contains(included_room)) {
      wrong.push_back(fmt::format("{}:{}: {} must not include {} (allowed: {})", file, line, room, included, fmt::join(allowed, ", ")));
    }
  }
}

}  // namespace

std::vector<std::string> wrong_includes(const fs::path& root) {
  static const std::set<std::string> kExtensions = {".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh"};
  std::vector<std::string> files;
  for (const std::string folder : {"engine", "cuda", "comm", "io", "tools", "benchmarks", "tests"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && kExtensions.contains(entry.path().extension())) {
        files.push_back(fs::relative(entry.path(), root).generic_string());
      }
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> wrong;
  for (const std::string& file : files) check_file(root, file, wrong);
  return wrong;
}

}  // namespace oxrse::test

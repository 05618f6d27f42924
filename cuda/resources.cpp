#include "cuda/resources.h"

#include <algorithm>
#include <sstream>

#include "engine/core/error.h"

namespace oxrse::cuda {

extern const char* const kResourcesText;  // cuda/resources.txt, which CMake puts into a source file

namespace {

const std::vector<Resources>& table() {
  static const std::vector<Resources> all = parse_resources(kResourcesText);
  return all;
}

}  // namespace

std::vector<Resources> parse_resources(std::string_view text) {
  std::vector<Resources> all;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    if (number < 2) continue;  // the version and the heading
    Resources r;
    int stores = 0, loads = 0;
    std::string file;
    std::istringstream fields(line);
    const bool ok = static_cast<bool>(fields >> r.gpu >> r.registers >> r.local >> stores >> loads >> file >> std::ws) &&
                    static_cast<bool>(std::getline(fields, r.kernel));
    require(ok, "cuda/resources.txt:{}: expected gpu, registers, stack, stores, loads, file and kernel, found \"{}\"", number + 1, line);
    all.push_back(r);
  }
  return all;
}

const Resources* resources_of(std::string_view kernel) {
  const auto found = std::ranges::find(table(), kernel, &Resources::kernel);
  return found != table().end() ? &*found : nullptr;
}

std::string resources_origin() {
  const std::string_view text = kResourcesText;
  return fmt::format("{}, {}", table().empty() ? "no GPU" : table().front().gpu, text.substr(0, text.find(',')));
}

}  // namespace oxrse::cuda

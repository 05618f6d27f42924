#include "engine/core/devices.h"

#include <map>
#include <string>
#include <utility>

#include "engine/core/error.h"

namespace oxrse {
namespace {

using Open = std::function<Device&()>;

std::map<std::string, Open, std::less<>>& devices() {
  static std::map<std::string, Open, std::less<>> all = {{"auto", nullptr}, {"cpu", nullptr}};
  return all;
}

}  // namespace

void add_device(std::string_view name, Open open) { devices()[std::string(name)] = std::move(open); }

Device* find_device(std::string_view name) {
  const auto found = devices().find(name);
  if (found != devices().end()) return found->second ? &found->second() : nullptr;
  std::string known;
  for (const auto& [each, device] : devices()) known += (known.empty() ? "\"" : ", \"") + each + "\"";
  fail("run.device \"{}\" is not in this build (oxrse doctor says why): use one of {}", name, known);
}

}  // namespace oxrse

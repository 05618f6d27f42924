#include "engine/core/devices.h"

#include <map>
#include <string>

#include "engine/core/error.h"

namespace oxrse {
namespace {

std::map<std::string, Cuda*, std::less<>>& devices() {
  static std::map<std::string, Cuda*, std::less<>> all = {{"auto", nullptr}, {"cpu", nullptr}};
  return all;
}

}  // namespace

void add_device(std::string_view name, Cuda& device) { devices()[std::string(name)] = &device; }

Cuda* find_device(std::string_view name) {
  const auto found = devices().find(name);
  if (found != devices().end()) return found->second;
  std::string known;
  for (const auto& [each, device] : devices()) known += (known.empty() ? "\"" : ", \"") + each + "\"";
  fail("run.device \"{}\" is not in this build (oxrse doctor says why): use one of {}", name, known);
}

}  // namespace oxrse

#include "engine/core/environment.h"

#include <cstdlib>

namespace oxrse {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::filesystem::path cache_directory() {
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return std::filesystem::path(cache) / "oxrse";
  if (const std::string home = environment("HOME"); !home.empty()) return std::filesystem::path(home) / ".cache" / "oxrse";
  return {};
}

}  // namespace oxrse

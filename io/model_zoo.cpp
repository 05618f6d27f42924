#include "io/model_zoo.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "engine/core/build_info.h"
#include "engine/core/nearest.h"

namespace oxrse::io {

namespace fs = std::filesystem;

fs::path model_zoo() {
  if (const char* given = std::getenv("OXRSE_MODEL_ZOO"); given != nullptr && *given != '\0') {
    require(fs::is_directory(given), "OXRSE_MODEL_ZOO={}: no such directory", given);
    return given;
  }
  std::error_code ignored;
  const fs::path installed = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path() / "share/oxrse/model_zoo";
  if (fs::is_directory(installed)) return installed;
  const fs::path sources = fs::path(build_info().source_dir) / "model_zoo";
  require(fs::is_directory(sources), "no model zoo in {} or {}: set OXRSE_MODEL_ZOO to its directory", installed.string(),
          sources.string());
  return sources;
}

std::vector<std::string> model_zoo_entries(const std::string& kind) {
  const fs::path folder = model_zoo() / kind;
  std::vector<std::string> names;
  if (!fs::is_directory(folder)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path name = fs::relative(entry.path(), folder);
    if (name.extension() == ".json") names.push_back(name.parent_path() / name.stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

JsonDocument read_model_zoo(const std::string& kind, const std::string& name) {
  const std::vector<std::string> names = model_zoo_entries(kind);
  if (std::find(names.begin(), names.end(), name) != names.end()) return read_json(model_zoo() / kind / (name + ".json"));
  const auto best = nearest(name, names);
  fail("\"{}\" is not in the model zoo{} All of {}: {}", name, best ? fmt::format("; did you mean \"{}\"?", *best) : ".",
       (model_zoo() / kind).string(), fmt::join(names, ", "));
}

}  // namespace oxrse::io

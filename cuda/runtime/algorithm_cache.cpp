#include "cuda/runtime/algorithm_cache.h"

#include <unistd.h>

#include <cctype>
#include <fstream>
#include <sstream>
#include <utility>

#include "engine/core/environment.h"
#include "engine/core/json.h"

namespace oxrse::cuda {

namespace fs = std::filesystem;

fs::path algorithm_cache_file(const std::string& owner) {
  const fs::path directory = cache_directory();
  if (directory.empty()) return {};
  std::string name = owner;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '_';
  }
  return directory / ("products_" + name + ".json");
}

AlgorithmCache::AlgorithmCache(fs::path file, std::string owner) : file_(std::move(file)), owner_(std::move(owner)), known_(read()) {}

std::map<std::string, Algorithm> AlgorithmCache::read() const {
  if (file_.empty()) return {};
  std::ifstream in(file_);
  std::stringstream text;
  text << in.rdbuf();
  try {
    const Json json = Json::parse(text.str());
    if (json.at("owner").get<std::string>() != owner_) return {};
    return json.at("algorithms").get<std::map<std::string, Algorithm>>();
  } catch (const Json::exception&) {
    return {};
  }
}

std::optional<Algorithm> AlgorithmCache::find(const std::string& key) const {
  const auto found = known_.find(key);
  return found != known_.end() ? std::optional(found->second) : std::nullopt;
}

void AlgorithmCache::add(const std::string& key, const Algorithm& algorithm) {
  known_[key] = algorithm;
  changed_ = true;
}

void AlgorithmCache::save() {
  if (!std::exchange(changed_, false) || file_.empty()) return;
  std::map<std::string, Algorithm> all = read();
  for (const auto& [key, algorithm] : known_) all[key] = algorithm;
  std::error_code error;
  fs::create_directories(file_.parent_path(), error);
  const fs::path temporary = file_.string() + fmt::format(".{}", getpid());
  const bool written = static_cast<bool>(std::ofstream(temporary) << Json{{"owner", owner_}, {"algorithms", all}}.dump(1) << '\n'
                                                                  << std::flush);
  if (written) fs::rename(temporary, file_, error);
  if (!written || error) fs::remove(temporary, error);
}

}  // namespace oxrse::cuda

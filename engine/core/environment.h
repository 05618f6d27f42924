#pragma once

#include <filesystem>
#include <string>

namespace oxrse {

/// The value of an environment variable; empty where it is not set.
std::string environment(const char* name);

/// Where files are kept that can be made again: "oxrse" in XDG_CACHE_HOME or in ~/.cache; empty where the environment has neither.
std::filesystem::path cache_directory();

}  // namespace oxrse

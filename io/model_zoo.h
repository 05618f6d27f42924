#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/core/json.h"

namespace oxrse::io {

/// The folder with models, recipes and Hugging Face name maps: $OXRSE_MODEL_ZOO when set, else <directory of the executable>/../share/
/// oxrse/model_zoo where it is installed, else model_zoo/ of the source tree. An Error says what was tried.
std::filesystem::path model_zoo();

/// The names of all entries of one kind ("models", "recipes", "hf"), sorted: "gpt2/124m", ...
std::vector<std::string> model_zoo_entries(const std::string& kind);

/// The entry `name` of one kind, e.g. ("models", "gpt2/124m"). An Error names the nearest entries.
JsonDocument read_model_zoo(const std::string& kind, const std::string& name);

}  // namespace oxrse::io

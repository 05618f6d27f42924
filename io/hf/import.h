#pragma once

#include <filesystem>

#include "io/checkpoint/directory.h"

namespace oxrse::io {

/// Makes a checkpoint of step 0 in the directory `out` from a Hugging Face directory (config.json, model.safetensors in one or several
/// files, and tokenizer.json when there is one that can be read). The weights keep their type and become the part "model"; the config
/// has the section "model". Needs memory for one tensor. An Error names what is missing, not supported, of another shape, or an
/// output layer of a tied model that is not its embedding; nothing is written then. `warn` is told of weights that are not finite. `out`
/// must not hold a checkpoint yet.
void import_hf(const std::filesystem::path& directory, const std::filesystem::path& out, const Warn& warn);

}  // namespace oxrse::io

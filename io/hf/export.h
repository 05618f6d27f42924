#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/core/dtype.h"
#include "io/checkpoint/checkpoint.h"

namespace oxrse::io {

struct HfExport {
  std::string family;                        // "llama", ...; empty: the first one of model_zoo/hf that can express the model
  std::optional<DType> dtype;                // of the weights; nothing: as they are in the checkpoint
  std::int64_t shard_bytes = 5'000'000'000;  // of a weight file at the most; more weights are put into several
};

/// Writes a new Hugging Face directory `out`: config.json, model.safetensors (or several and their index, see SafetensorsModelWriter) and,
/// when the checkpoint has one, tokenizer.json. The master weights where there are any. Needs memory for one tensor. An Error says why a
/// model cannot be expressed, which tensor is missing, unknown or of another shape, or does not fit the type; then there is no `out`.
void export_hf(const Checkpoint& checkpoint, const std::filesystem::path& out, const HfExport& options);

}  // namespace oxrse::io

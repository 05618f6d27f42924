#include "io/hf/import.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "io/checkpoint/checkpoint.h"
#include "io/finite.h"
#include "io/hf/name_map.h"
#include "io/hf/transpose.h"
#include "io/safetensors/safetensors_model.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {
namespace {

std::string stored_name(const SafetensorsModel& weights, const NameMap& map, const std::string& name) {
  return weights.has(name) ? name : map.without_prefix(name);
}

/// The type of all parts, after checking their shapes.
DType check_parts(const SafetensorsModel& weights, const NameMap& map, const HfTensor& tensor) {
  DType type = DType::None;
  for (const HfPart& part : tensor.parts) {
    const std::string name = stored_name(weights, map, part.name);
    const SafeTensor& stored = weights.at(name);
    std::vector<std::int64_t> expected = part.shape;
    if (tensor.transposed) std::swap(expected[0], expected[1]);
    require(stored.shape == expected, "tensor {} has shape {}; config.json asks for {}", name, describe_shape(stored.shape),
            describe_shape(expected));
    const DType part_type = dtype_of_safetensors(stored.dtype);
    require(is_floating(part_type), "tensor {} is of type {}; weights are floats", name, stored.dtype);
    require(type == DType::None || type == part_type, "tensor {} is of type {}, the others of {} are not", name, stored.dtype, tensor.name);
    type = part_type;
  }
  return type;
}

void check_nothing_left(const SafetensorsModel& weights, const NameMap& map, const Json& model, const std::vector<HfTensor>& tensors) {
  std::set<std::string> known;
  for (const HfTensor& tensor : tensors) {
    for (const HfPart& part : tensor.parts) known.insert(stored_name(weights, map, part.name));
  }
  for (const std::string& name : map.ignored_tensors(model.at("layers").get<std::int64_t>())) known.insert(stored_name(weights, map, name));
  if (model.at("tied_embeddings") == true) known.insert("lm_head.weight");  // a copy of the embedding in some files
  for (const std::string& name : weights.names()) {
    require(known.contains(name), "tensor {} has no place in a model of type {}: this is a variant that is not supported", name,
            map.family());
  }
}

/// A stored output layer of a tied model must be the embedding: this engine would use the embedding in its place.
void check_tied(const SafetensorsModel& weights, const NameMap& map, const JsonDocument& config, const Json& model,
                const std::vector<HfTensor>& tensors) {
  const std::string output = "lm_head.weight";
  if (model.at("tied_embeddings") != true || !weights.has(output)) return;
  const auto is_embedding = [](const HfTensor& tensor) { return tensor.name == "embedding.weight"; };
  const HfTensor& ours = *std::find_if(tensors.begin(), tensors.end(), is_embedding);
  const std::string embedding = stored_name(weights, map, ours.parts.front().name);
  const SafeTensor &a = weights.at(embedding), &b = weights.at(output);
  const auto x = weights.bytes(embedding), y = weights.bytes(output);
  require(a.dtype == b.dtype && a.shape == b.shape && std::equal(x.begin(), x.end(), y.begin(), y.end()),
          "tensor {} differs from {}, but in a model with tie_word_embeddings they are one: set \"tie_word_embeddings\" to false in {} to "
          "import both",
          output, embedding, config.source);
}

void warn_not_finite(const ConstTensor& part, const std::string& name, const Warn& warn) {
  const std::int64_t count = count_not_finite(part);
  if (count > 0) warn(fmt::format("tensor {}: {} of {} weights are NaN or infinite", name, count, part.count()));
}

/// Puts the parts one under the other.
void assemble(const SafetensorsModel& weights, const NameMap& map, const HfTensor& tensor, const Tensor& out, const Warn& warn) {
  std::byte* at = out.address();
  for (const HfPart& part : tensor.parts) {
    const std::string name = stored_name(weights, map, part.name);
    const std::span<const std::byte> bytes = weights.bytes(name);
    if (tensor.transposed) {
      transpose(at, bytes.data(), part.shape[1], part.shape[0], size_of(out.dtype()));
    } else if (!bytes.empty()) {
      std::memcpy(at, bytes.data(), bytes.size());
    }
    warn_not_finite(ConstTensor(at, out.dtype(), part.shape), name, warn);
    at += bytes.size();
  }
}

std::string tokenizer_in(const std::filesystem::path& directory, const Warn& warn) {
  const bool there = std::filesystem::exists(directory / "tokenizer.json") || std::filesystem::exists(directory / "vocab.json");
  if (!there) return "";
  try {
    return load_tokenizer(directory.string())->to_json();
  } catch (const Error& error) {
    warn(fmt::format("the tokenizer is not imported: {}", error.what()));
    return "";
  }
}

}  // namespace

void import_hf(const std::filesystem::path& directory, const std::filesystem::path& out, const Warn& warn) {
  require(!holds_checkpoint(out), "{} holds a checkpoint already; choose another directory", out.string());
  const JsonDocument config = read_json((directory / "config.json").string());
  const JsonNode type = JsonNode(config).at("model_type");
  type.require(type.value().is_string(), "expected a string, found {}", shown(type.value()));
  const NameMap map(type.value().get<std::string>());
  CheckpointState state;
  const Json model = map.model_from(config, warn);
  state.config = {{"model", model}};
  const SafetensorsModel weights(directory);
  const std::vector<std::string> names = weights.names();
  require(model.at("layers").get<std::uint64_t>() <= names.size(), "{} asks for {} layers but there are only {} tensors", config.source,
          model.at("layers").dump(), names.size());
  const std::vector<HfTensor> tensors = map.tensors(model);
  std::vector<CheckpointEntry> entries;
  for (const HfTensor& tensor : tensors) {
    const DType dtype = check_parts(weights, map, tensor);
    const auto fill = [&weights, &map, &tensor, &warn](const Tensor& to) { assemble(weights, map, tensor, to, warn); };
    entries.push_back({tensor.name, "model", ConstTensor(nullptr, dtype, tensor.shape), fill});
  }
  check_nothing_left(weights, map, model, tensors);
  check_tied(weights, map, config, model, tensors);
  state.tokenizer_json = tokenizer_in(directory, warn);
  save_checkpoint(out, state, entries, 0, warn);
}

}  // namespace oxrse::io

#include "io/hf/name_map.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "io/checkpoint/manifest.h"
#include "io/hf/dimensions.h"
#include "io/model_zoo.h"

namespace oxrse::io {
namespace {

/// Keys of any config.json that do not change what is computed.
constexpr std::array kHarmless = {"architectures",        "model_type",        "torch_dtype",         "dtype",
                                  "transformers_version", "use_cache",         "_name_or_path",       "pad_token_id",
                                  "bos_token_id",         "eos_token_id",      "initializer_range",   "attention_dropout",
                                  "return_dict",          "output_attentions", "output_hidden_states"};

/// The value at "a.b"; nothing where it is absent or null.
const Json* find(const Json& object, std::string_view path) {
  const std::size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  if (!object.is_object() || !object.contains(key) || object.at(key).is_null()) return nullptr;
  return dot == std::string_view::npos ? &object.at(key) : find(object.at(key), path.substr(dot + 1));
}

JsonNode node_at(JsonNode node, std::string_view path) {
  const std::size_t dot = path.find('.');
  node = node.at(path.substr(0, dot));
  return dot == std::string_view::npos ? node : node_at(node, path.substr(dot + 1));
}

/// A value of our model key, of the type that key has.
Json checked(const JsonNode& node, const std::string& key) {
  const Json& value = node.value();
  if (key == "tied_embeddings") {
    node.require(value.is_boolean(), "expected true or false, found {}", shown(value));
    return value;
  }
  if (key == "norm_eps" || key == "rope_theta") {
    node.require(value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0, "expected a positive number, found {}",
                 shown(value));
    return value.get<double>();
  }
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() > 0 && value.get<std::uint64_t>() <= INT32_MAX;
  node.require(fits, "expected an integer from 1 to {}, found {}", INT32_MAX, shown(value));
  return value;
}

bool accepted(const Json& value, const Json& choices) {
  if (value.is_array()) return std::all_of(value.begin(), value.end(), [&](const Json& each) { return accepted(each, choices); });
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

std::string with_layer(std::string text, std::int64_t layer) {
  const std::size_t place = text.find("{l}");
  return place == std::string::npos ? text : text.replace(place, 3, std::to_string(layer));
}

bool is_per_layer(const std::string& name) { return name.find("{l}") != std::string::npos; }

HfTensor tensor_for(const std::string& name, const Json& rule, const Json& model, std::int64_t layer) {
  HfTensor tensor{with_layer(name, layer), {}, {}, rule.value("transposed", false)};
  for (const auto& [part_name, letters] : rule.at("from").items()) {
    HfPart part{with_layer(part_name, layer), {}};
    for (const Json& expression : letters) part.shape.push_back(dimension(expression.get<std::string>(), model));
    tensor.parts.push_back(part);
  }
  tensor.shape = tensor.parts.front().shape;
  for (std::size_t i = 1; i < tensor.parts.size(); ++i) tensor.shape[0] += tensor.parts[i].shape[0];
  return tensor;
}

bool applies(const Json& rule, const Json& model) {
  if (!rule.contains("when")) return true;
  const Json& conditions = rule.at("when");
  return std::all_of(conditions.items().begin(), conditions.items().end(), [&](const auto& c) { return model.at(c.key()) == c.value(); });
}

}  // namespace

NameMap::NameMap(const std::string& model_type) : family_(model_type) {
  const std::vector<std::string> families = model_zoo_entries("hf");
  require(std::find(families.begin(), families.end(), model_type) != families.end(), "model_type \"{}\" is not supported; these are: {}",
          model_type, fmt::join(families, ", "));
  document_ = read_model_zoo("hf", model_type);
}

void NameMap::check_fixed(const JsonDocument& config, std::string_view section_name) const {
  for (const auto& [path, choices] : section(section_name).items()) {
    const Json* value = find(config.value, path);
    if (value == nullptr || accepted(*value, choices)) continue;
    node_at(config, path).fail("{} is not supported; {} is", shown(*value), choices.front().dump());
  }
}

void NameMap::mention_unknown_keys(const JsonDocument& config, const Warn& warn) const {
  std::set<std::string> known(kHarmless.begin(), kHarmless.end());
  for (const Json& key : section("ignored")) known.insert(key.get<std::string>());
  for (const char* name : {"fixed", "expected", "exported", "config"}) {
    for (const auto& [path, value] : section(name).items()) known.insert(path.substr(0, path.find('.')));
  }
  for (const auto& [key, value] : config.value.items()) {
    if (!known.contains(key)) warn(fmt::format("{} is not known for {} and has no effect", node_at(config, key).where(), family_));
  }
}

Json NameMap::model_from(const JsonDocument& config, const Warn& warn) const {
  check_fixed(config, "fixed");
  check_fixed(config, "expected");
  mention_unknown_keys(config, warn);
  Json model = Json::object();
  for (const auto& [path, rule] : section("config").items()) {
    const auto key = rule.at("key").get<std::string>();
    const std::string alternative = rule.value("or", path);
    const std::string& there = find(config.value, path) != nullptr ? path : alternative;
    if (find(config.value, there) != nullptr) {
      model[key] = checked(node_at(config, there), key);
      continue;
    }
    require(rule.contains("absent"), "{}: \"{}\" is missing", config.source, path);
    const Json& preset = rule.at("absent");
    model[key] = preset.is_string() ? Json(dimension(preset.get<std::string>(), model)) : preset;
  }
  for (const auto& [key, value] : section("model").items()) model[key] = value;
  model["kv_heads"] = dimension("K", model);
  model["head_width"] = dimension("D", model);
  return model;
}

std::string NameMap::why_not(const Json& model) const {
  for (const auto& [key, value] : section("model").items()) {
    if (key == "qkv_bias" && !model.contains(key) && value == false) continue;
    if (key == "window" && !model.contains(key) && value == 0) continue;
    if (!model.contains(key)) return fmt::format("model.{} is absent", key);
    if (model.at(key) != value) return fmt::format("model.{} is {}, not {}", key, model.at(key).dump(), value.dump());
  }
  for (const Json& pair : section("equal")) {
    const auto a = pair[0].get<std::string>(), b = pair[1].get<std::string>();
    if (dimension(a, model) != dimension(b, model)) {
      return fmt::format("{} is {} but {} is {} (C width, H heads, K kv_heads, D head_width)", a, dimension(a, model), b,
                         dimension(b, model));
    }
  }
  return "";
}

Json NameMap::config_from(const Json& model, DType dtype) const {
  Json config = {{"architectures", {section("architecture")}}, {"model_type", family_}};
  for (const auto& [key, rule] : section("config").items()) {
    const auto ours = rule.at("key").get<std::string>();
    if (ours == "kv_heads") {
      config[key] = dimension("K", model);
    } else if (ours == "head_width") {
      config[key] = dimension("D", model);
    } else if (ours == "mlp_width") {
      config[key] = dimension("I", model);
    } else if (ours == "window") {
      config[key] = model.value(ours, 0) == 0 ? Json() : model.at(ours);
    } else {
      require(model.contains(ours), "the checkpoint's model has no key {}", ours);
      config[key] = model.at(ours);
    }
  }
  for (const auto& [key, choices] : section("fixed").items()) config[key] = choices.front();
  for (const auto& [key, value] : section("exported").items()) config[key] = value;
  constexpr std::array<std::pair<DType, const char*>, 4> kNames = {
      {{DType::F64, "float64"}, {DType::F32, "float32"}, {DType::BF16, "bfloat16"}, {DType::F16, "float16"}}};
  for (const auto& [type, name] : kNames) {
    if (type == dtype) config["torch_dtype"] = name;
  }
  return config;
}

std::vector<HfTensor> NameMap::tensors(const Json& model) const {
  std::vector<HfTensor> before, blocks, after;
  const auto layers = model.at("layers").get<std::int64_t>();
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (const auto& [name, rule] : section("tensors").items()) {
      if (!applies(rule, model)) continue;
      if (is_per_layer(name)) {
        blocks.push_back(tensor_for(name, rule, model, layer));
      } else if (layer == 0) {
        (blocks.empty() ? before : after).push_back(tensor_for(name, rule, model, layer));
      }
    }
  }
  before.insert(before.end(), blocks.begin(), blocks.end());
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

std::string NameMap::without_prefix(const std::string& name) const {
  const std::string prefix = document_.value.value("optional_prefix", "");
  return !prefix.empty() && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

std::vector<std::string> NameMap::ignored_tensors(std::int64_t layers) const {
  std::vector<std::string> names;
  for (const Json& pattern : section("ignored_tensors")) {
    for (std::int64_t layer = 0; layer < layers; ++layer) names.push_back(with_layer(pattern.get<std::string>(), layer));
  }
  return names;
}

}  // namespace oxrse::io

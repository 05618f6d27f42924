#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/json.h"
#include "io/checkpoint/directory.h"

namespace oxrse::io {

/// A tensor of a Hugging Face model, or a part of it that becomes one of ours.
struct HfPart {
  std::string name;
  std::vector<std::int64_t> shape;  // as we see it: (out, in)
};

/// One of our tensors: the parts, one under the other.
struct HfTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<HfPart> parts;
  bool transposed = false;  // the parts are stored (in, out)
};

/// How a family of Hugging Face models is called, configured and stored: model_zoo/hf/<model_type>.json.
class NameMap {
 public:
  /// An Error lists the families there are.
  explicit NameMap(const std::string& model_type);

  [[nodiscard]] const std::string& family() const { return family_; }
  /// The "model" section for a config.json. An Error names the key and line of what this engine does not compute, `warn` is told about
  /// keys that are not known.
  [[nodiscard]] Json model_from(const JsonDocument& config, const Warn& warn) const;
  /// Why this family cannot express a model; empty when it can.
  [[nodiscard]] std::string why_not(const Json& model) const;
  /// The config.json for a model that the family can express.
  [[nodiscard]] Json config_from(const Json& model, DType dtype) const;
  /// The tensors of a model.
  [[nodiscard]] std::vector<HfTensor> tensors(const Json& model) const;

  /// A tensor's other name where files differ in a prefix; the same name where they do not.
  [[nodiscard]] std::string without_prefix(const std::string& name) const;
  /// Tensors that hold no weights, such as stored masks.
  [[nodiscard]] std::vector<std::string> ignored_tensors(std::int64_t layers) const;

 private:
  [[nodiscard]] const Json& section(std::string_view key) const { return document_.value.at(key); }
  void check_fixed(const JsonDocument& config, std::string_view section_name) const;
  void mention_unknown_keys(const JsonDocument& config, const Warn& warn) const;

  std::string family_;
  JsonDocument document_;
};

}  // namespace oxrse::io

#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "engine/core/error.h"

namespace oxrse {

/// JSON values keep the order of their keys, so that what is echoed reads like what was written.
using Json = nlohmann::ordered_json;

/// A JSON value together with where each part of it was written. Paths read "data.train[1].source"; the root is "".
struct JsonDocument {
  std::string source;  // the file's name, or what stands for it in messages
  Json value;
  std::map<std::string, int, std::less<>> lines;  // line of every path, from 1; 0 for what the command line set
};

/// A value in a document, for reading it with good messages. Valid as long as its document is unchanged.
class JsonNode {
 public:
  JsonNode(const JsonDocument& document)  // NOLINT(google-explicit-constructor): a document stands for its root
      : document_(&document), value_(&document.value) {}

  [[nodiscard]] const Json& value() const { return *value_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool has(std::string_view key) const { return value_->is_object() && value_->contains(key); }
  /// The member `key`; an Error when this is no object or has no such key.
  [[nodiscard]] JsonNode at(std::string_view key) const;
  /// Element `i`; an Error when this is no list or shorter.
  [[nodiscard]] JsonNode at(std::size_t i) const;

  /// "config.json:7: train.steps", "--set: train.steps" or, at the root, "config.json".
  [[nodiscard]] std::string where() const;
  /// Throws an Error that starts with `where()`.
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(where() + ": " + fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    if (!ok) fail(format, std::forward<Args>(args)...);
  }

 private:
  JsonNode(const JsonDocument* document, const Json* value, std::string path)
      : document_(document), value_(value), path_(std::move(path)) {}
  const JsonDocument* document_;
  const Json* value_;
  std::string path_;
};

/// Parses JSON (RFC 8259) with // and /* */ comments. Errors name `source` and the line: bad syntax, a key given twice, a number too
/// large for a double.
JsonDocument parse_json(std::string_view text, const std::string& source);
/// The same for a file.
JsonDocument read_json(const std::string& file);

/// Applies "key.path=JSON" to the document: replaces that value, making the objects on the way to it.
void apply_set(JsonDocument& document, std::string_view assignment);

/// "a string", "an integer", "a list", ...: what a value is, for messages.
std::string_view kind_of(const Json& value);
/// The value on one line, shortened when long.
std::string shown(const Json& value);
/// "train" and "steps" give "train.steps"; "" and "train" give "train".
std::string join_path(std::string_view parent, std::string_view key);

}  // namespace oxrse

#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/core/config_field.h"
#include "engine/core/json.h"

/// Reading, echoing, describing and comparing config sections, all from the one declaration of config_field.h.

namespace oxrse {
namespace config_detail {

struct AnyVisitor {
  template <class T>
  void operator()(T& /*member*/, const Field& /*field*/) {}
};
template <class T>
struct OptionalOf : std::false_type {};
template <class T>
struct OptionalOf<std::optional<T>> : std::true_type {};
template <class T>
struct VectorOf : std::false_type {};
template <class T>
struct VectorOf<std::vector<T>> : std::true_type {};

}  // namespace config_detail

/// A struct that declares its keys with `fields(self, visit)`.
template <class T>
concept Section = requires(T& section, config_detail::AnyVisitor& visit) {
  T::fields(section, visit);
};

namespace config_detail {

bool read_bool(const JsonNode& node);
std::string read_string(const JsonNode& node, const Field& field);
double read_number(const JsonNode& node, const Field& field);
/// An integer in [lowest, highest] and in the field's range; 1e5 is one, 300.5 is not.
std::int64_t read_integer(const JsonNode& node, const Field& field, std::int64_t lowest, std::int64_t highest);
/// Refuses keys of an object that are not among `known`, with the nearest of them; and what is no object.
void check_keys(const JsonNode& node, const std::vector<std::string>& known);

/// A key for the help text.
struct HelpEntry {
  std::string path;
  std::string type;  // with range, choices and unit
  std::string preset;
  std::string meaning;
};
std::string describe_type(std::string_view kind, const Field& field);
std::string format_help(const std::vector<HelpEntry>& entries);

template <class T>
void read_into(const JsonNode& node, const Field& field, T& value);

template <Section S>
void read_section(const JsonNode& node, S& section) {
  std::vector<std::string> known;
  auto collect = [&](auto& /*member*/, const Field& field) { known.emplace_back(field.key); };
  S::fields(section, collect);
  check_keys(node, known);
  auto read = [&](auto& member, const Field& field) {
    if (node.has(field.key)) read_into(node.at(field.key), field, member);
  };
  S::fields(section, read);
}

template <class T>
void read_into(const JsonNode& node, const Field& field, T& value) {
  if constexpr (Section<T>) {
    read_section(node, value);
  } else if constexpr (std::is_same_v<T, Json>) {
    value = node.value();
  } else if constexpr (OptionalOf<T>::value) {
    typename T::value_type inner{};
    if (!node.value().is_null()) read_into(node, field, inner);
    value = node.value().is_null() ? T() : T(std::move(inner));
  } else if constexpr (VectorOf<T>::value) {
    node.require(node.value().is_array(), "expected a list, found {} ({})", kind_of(node.value()), shown(node.value()));
    value.clear();
    for (std::size_t i = 0; i < node.value().size(); ++i) read_into(node.at(i), field, value.emplace_back());
  } else if constexpr (std::is_same_v<T, bool>) {
    value = read_bool(node);
  } else if constexpr (std::integral<T>) {
    using Limits = std::numeric_limits<T>;
    const std::int64_t highest =
        std::in_range<std::int64_t>(Limits::max()) ? static_cast<std::int64_t>(Limits::max()) : std::numeric_limits<std::int64_t>::max();
    value = static_cast<T>(read_integer(node, field, static_cast<std::int64_t>(Limits::min()), highest));
  } else if constexpr (std::floating_point<T>) {
    value = static_cast<T>(read_number(node, field));
  } else {
    static_assert(std::is_same_v<T, std::string>, "a config member of this type cannot be read");
    value = read_string(node, field);
  }
}

template <class T>
std::string_view kind_name() {
  if constexpr (OptionalOf<T>::value) {
    return kind_name<typename T::value_type>();
  } else if constexpr (VectorOf<T>::value) {
    return "list";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "boolean";
  } else if constexpr (std::integral<T>) {
    return "integer";
  } else if constexpr (std::floating_point<T>) {
    return "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "string";
  } else {
    return "value";
  }
}

}  // namespace config_detail

/// Reads an object into `section`, whose present values are the defaults. Nothing is changed when there is an Error, which names file,
/// line and path of the value, what is allowed and the nearest key or choice.
template <Section S>
void read_config(const JsonNode& node, S& section) {
  S result = section;
  config_detail::read_section(node, result);
  section = std::move(result);
}

/// Every key of the section with its value.
template <Section S>
Json write_config(const S& section) {
  Json result = Json::object();
  auto write = [&](const auto& member, const Field& field) {
    using T = std::remove_cvref_t<decltype(member)>;
    Json& value = result[std::string(field.key)];
    if constexpr (Section<T>) {
      value = write_config(member);
    } else if constexpr (config_detail::OptionalOf<T>::value) {
      if constexpr (Section<typename T::value_type>) {
        value = member ? write_config(*member) : Json();
      } else {
        value = member ? Json(*member) : Json();
      }
    } else {
      value = member;
    }
  };
  S::fields(section, write);
  return result;
}

namespace config_detail {

template <Section S>
void add_help(const S& section, const std::string& path, std::vector<HelpEntry>& entries) {
  auto add = [&](const auto& member, const Field& field) {
    using T = std::remove_cvref_t<decltype(member)>;
    const std::string key = join_path(path, field.key);
    if constexpr (Section<T>) {
      add_help(member, key, entries);
    } else {
      const Json preset = write_config(section).at(std::string(field.key));
      entries.push_back({key, describe_type(kind_name<T>(), field), shown(preset), std::string(field.meaning)});
      if constexpr (OptionalOf<T>::value) {
        if constexpr (Section<typename T::value_type>) add_help(typename T::value_type(), key, entries);
      }
    }
  };
  S::fields(section, add);
}

}  // namespace config_detail

/// One entry for every key: path, type, range or choices, unit, default (the section's value) and meaning.
template <Section S>
std::string config_help(const S& section) {
  std::vector<config_detail::HelpEntry> entries;
  config_detail::add_help(section, "", entries);
  return config_detail::format_help(entries);
}

/// One line "path: a -> b" for every value that differs; "(absent)" for what one side has not.
std::vector<std::string> config_differences(const Json& a, const Json& b);
template <Section S>
std::vector<std::string> config_differences(const S& a, const S& b) {
  return config_differences(write_config(a), write_config(b));
}

}  // namespace oxrse

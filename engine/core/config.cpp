#include "engine/core/config.h"

#include <algorithm>
#include <limits>

#include "engine/core/nearest.h"

namespace oxrse {
namespace {

// Beyond this a double does not fit a 64-bit integer.
constexpr double kTwoTo63 = 9223372036854775808.0;

/// Whole numbers without exponent or fraction, others in their shortest form.
std::string number_text(double value) {
  if (value == kTwoTo63) return fmt::format("{}", std::numeric_limits<std::int64_t>::max());  // as a double the next larger number
  return value == std::floor(value) && value >= -kTwoTo63 && value < kTwoTo63 ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

/// "at least 0", "above 0 and at most 1", "".
std::string range_text(const Field& field) {
  std::string text;
  if (std::isfinite(field.min)) text = fmt::format("{} {}", field.above_min ? "above" : "at least", number_text(field.min));
  if (std::isfinite(field.max)) text += fmt::format("{}at most {}", text.empty() ? "" : " and ", number_text(field.max));
  return text;
}

std::string with_unit(const Field& field) { return field.unit.empty() ? "" : fmt::format(" {}", field.unit); }

bool in_range(double value, const Field& field) { return value <= field.max && (field.above_min ? value > field.min : value >= field.min); }

std::string quoted_list(const std::vector<std::string_view>& choices) {
  std::string text;
  for (const std::string_view choice : choices) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", choice);
  return text;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const auto best = nearest(word, candidates);
  return best ? fmt::format("; did you mean \"{}\"?", *best) : "";
}

std::string pad(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

void add_differences(const std::string& path, const Json* a, const Json* b, std::vector<std::string>& lines) {
  const auto member = [](const Json* object, const std::string& key) -> const Json* {
    if (object == nullptr || !object->is_object() || !object->contains(key)) return nullptr;
    return &object->at(key);
  };
  if (a != nullptr && b != nullptr && a->is_object() && b->is_object()) {
    for (const auto& [key, value] : a->items()) add_differences(join_path(path, key), &value, member(b, key), lines);
    for (const auto& [key, value] : b->items()) {
      if (member(a, key) == nullptr) add_differences(join_path(path, key), nullptr, &value, lines);
    }
    return;
  }
  if (a != nullptr && b != nullptr && *a == *b) return;
  const auto text = [](const Json* value) { return value == nullptr ? std::string("(absent)") : shown(*value); };
  lines.push_back(fmt::format("{}: {} -> {}", path, text(a), text(b)));
}

}  // namespace

namespace config_detail {

bool read_bool(const JsonNode& node) {
  node.require(node.value().is_boolean(), "expected true or false, found {} ({})", kind_of(node.value()), shown(node.value()));
  return node.value().get<bool>();
}

std::string read_string(const JsonNode& node, const Field& field) {
  node.require(node.value().is_string(), "expected a string, found {} ({})", kind_of(node.value()), shown(node.value()));
  auto value = node.value().get<std::string>();
  if (field.choices.empty() || std::find(field.choices.begin(), field.choices.end(), value) != field.choices.end()) return value;
  const std::vector<std::string> choices(field.choices.begin(), field.choices.end());
  node.fail("\"{}\" is not one of the choices{} Allowed: {}", value, suggestion(value, choices).empty() ? "." : suggestion(value, choices),
            quoted_list(field.choices));
}

double read_number(const JsonNode& node, const Field& field) {
  node.require(node.value().is_number(), "expected a number, found {} ({})", kind_of(node.value()), shown(node.value()));
  const auto value = node.value().get<double>();
  node.require(std::isfinite(value), "expected a finite number, found {}", shown(node.value()));
  node.require(in_range(value, field), "{} is out of range: must be {}{}", shown(node.value()), range_text(field), with_unit(field));
  return value;
}

std::int64_t read_integer(const JsonNode& node, const Field& field, std::int64_t lowest, std::int64_t highest) {
  const Json& value = node.value();
  node.require(value.is_number(), "expected an integer, found {} ({})", kind_of(value), shown(value));
  Field bounds = field;
  bounds.min = std::max(field.min, static_cast<double>(lowest));
  bounds.max = std::min(field.max, static_cast<double>(highest));
  const auto as_double = value.get<double>();
  node.require(as_double == std::floor(as_double), "expected an integer, found {}", shown(value));
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                        : as_double >= -kTwoTo63 && as_double < kTwoTo63;
  node.require(fits && in_range(as_double, bounds), "{} is out of range: must be {}{}", shown(value), range_text(bounds), with_unit(field));
  return value.is_number_float() ? static_cast<std::int64_t>(as_double) : value.get<std::int64_t>();
}

void check_keys(const JsonNode& node, const std::vector<std::string>& known) {
  node.require(node.value().is_object(), "expected an object, found {} ({})", kind_of(node.value()), shown(node.value()));
  for (const auto& member : node.value().items()) {
    if (std::find(known.begin(), known.end(), member.key()) != known.end()) continue;
    const std::string hint = suggestion(member.key(), known);
    node.at(member.key()).fail("unknown key{} Known keys here: {}", hint.empty() ? "." : hint, fmt::join(known, ", "));
  }
}

std::string describe_type(std::string_view kind, const Field& field) {
  if (!field.choices.empty()) return fmt::format("one of {}", quoted_list(field.choices));
  const std::string range = range_text(field);
  return fmt::format("{}{}{}{}", kind, range.empty() ? "" : " ", range, field.unit.empty() ? "" : fmt::format(", in {}", field.unit));
}

std::string format_help(const std::vector<HelpEntry>& entries) {
  std::size_t path_width = 0;
  for (const HelpEntry& entry : entries) path_width = std::max(path_width, entry.path.size());
  std::string text;
  for (const HelpEntry& entry : entries) {
    const std::string indent(path_width + 2, ' ');
    text += fmt::format("{}  {}\n{}{}; default {}\n", pad(entry.path, path_width), entry.meaning, indent, entry.type, entry.preset);
  }
  return text;
}

}  // namespace config_detail

std::vector<std::string> config_differences(const Json& a, const Json& b) {
  std::vector<std::string> lines;
  add_differences("", &a, &b, lines);
  return lines;
}

}  // namespace oxrse

#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace oxrse {

/// What a config key is, said once: parsing, validation, `--help-config` and the echoed config are all made from it.
///
/// A section is a plain struct whose members' initialisers are the defaults, with
///
///     template <class Self, class Visitor> static void fields(Self& self, Visitor& visit) {
///       visit(self.steps, Field{.key = "steps", .meaning = "optimizer steps to take", .min = 0});
///     }
///
/// It is read, echoed and described by engine/core/config.h. Members may be bool, integers, double,
/// std::string, std::vector and std::optional (null) of those, another section, or Json for a value with alternatives (such as a
/// string or a list) that its owner reads further through `JsonNode`.
struct Field {
  std::string_view key;
  std::string_view meaning;
  std::string_view unit = {};                             // "nats", "s", "MiB"; empty for a pure number
  double min = -std::numeric_limits<double>::infinity();  // numbers: the smallest allowed value
  double max = std::numeric_limits<double>::infinity();   // numbers: the largest allowed value
  bool above_min = false;                                 // the smallest value itself is not allowed
  std::vector<std::string_view> choices = {};             // strings: the allowed values; empty allows any
};

}  // namespace oxrse

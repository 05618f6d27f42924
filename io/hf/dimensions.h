#pragma once

#include <cstdint>
#include <string_view>

#include "engine/core/json.h"

namespace oxrse::io {

/// The sizes of a model under the letters used everywhere: "C" width, "H" heads, "K" kv_heads, "D" head_width, "I" mlp_width,
/// "V" vocab, "T" context. `expression` is a product of letters after an optional number and before an optional divisor: "HD", "3C",
/// "C/H". The zeros of a model (kv_heads, head_width, mlp_width) mean what they mean in a config. An Error names what is missing or
/// does not divide.
std::int64_t dimension(std::string_view expression, const Json& model);

}  // namespace oxrse::io
